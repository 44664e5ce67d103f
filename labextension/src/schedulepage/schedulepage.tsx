/** The page of schedules: when each comes next, what became of its times, and what can be done. */
import { Dialog, showDialog } from '@jupyterlab/apputils';
import * as React from 'react';

import { useNow, usePanel, useTopics, useWords } from '../components/context';
import { Fragment, h } from '../components/h';
import { ActionButton, Callout, LinkButton, Pill } from '../components/parts';
import { useEvery } from '../components/polling';
import { CommandIDs } from '../lab/ids';
import { dot } from '../model/jobs';
import { Standing } from '../panel/panel';
import { told } from '../server/api';
import {
  FORGOTTEN,
  ISchedule,
  IScheduleRun,
  promote,
  scheduleOf,
  schedulesOf,
  ScheduleVerb,
  steerSchedule
} from '../server/schedules';
import { scheduleMessages } from './messages';
import { zonedTime } from './zonedtime';

const REFRESH_MS = 5000;
/** As many as the server lists; all that are remembered come when asked for. */
const LISTED_RUNS = 3;

export function SchedulePage(props: {
  /** The one that was asked for, as `owner/name`. */
  wanted: string | null;
}): React.JSX.Element {
  const { model, trans } = usePanel();
  const msg = useWords(scheduleMessages);
  useTopics(model, ['status', 'jobs']);
  const [found, setFound] = React.useState<ISchedule[] | null>(null);
  const [problem, setProblem] = React.useState<string | null>(null);
  const load = React.useCallback(async () => {
    try {
      setFound(await schedulesOf(model.api));
      setProblem(null);
    } catch (error) {
      setProblem(told(error));
    }
  }, [model]);
  React.useEffect(() => {
    void load();
  }, [load]);
  useEvery(load, REFRESH_MS);
  return (
    <div className="gc-JobPage">
      <Standing />
      <header className="gc-Row gc-JobHeader">
        <h1>{trans.__('Schedules')}</h1>
      </header>
      {problem !== null && model.connection === 'ok' ? (
        <Callout tone="error">{problem}</Callout>
      ) : null}
      {found === null && problem === null ? (
        <p className="gc-Muted">{msg.loading()}</p>
      ) : null}
      {found?.length === 0 ? <p className="gc-Muted">{msg.none()}</p> : null}
      <div className={model.connection === 'ok' ? '' : 'gc-mod-stale'}>
        {(found ?? []).map(each => (
          <ScheduleBox
            key={`${each.owner}/${each.name}`}
            schedule={each}
            isWanted={props.wanted === `${each.owner}/${each.name}`}
            reload={load}
          />
        ))}
      </div>
    </div>
  );
}

function ScheduleBox(props: {
  schedule: ISchedule;
  isWanted: boolean;
  reload: () => Promise<void>;
}): React.JSX.Element {
  const { schedule, isWanted } = props;
  const { trans } = usePanel();
  const msg = useWords(scheduleMessages);
  const node = React.useRef<HTMLElement>(null);
  React.useEffect(() => {
    if (isWanted) {
      node.current?.scrollIntoView({ block: 'nearest' });
    }
  }, [isWanted]);
  const waits = msg.waits(schedule);
  const promoted = msg.promoted(schedule);
  return (
    <section
      ref={node}
      className={`gc-Box gc-Schedule ${isWanted ? 'gc-mod-wanted' : ''}`}
      aria-label={schedule.name}
    >
      <div className="gc-Row gc-JobHeader">
        <h3>{schedule.name}</h3>
        {schedule.simulated ? <Pill>{trans.__('simulated')}</Pill> : null}
        {schedule.suspend ? <Pill>{msg.suspended(schedule)}</Pill> : null}
        <span className="gc-Muted">
          {schedule.owner
            ? `${schedule.team} · ${schedule.owner}`
            : schedule.team}
        </span>
        <Steering schedule={schedule} reload={props.reload} />
      </div>
      <p className="gc-Muted">{schedule.what}</p>
      {waits === null ? null : <Callout tone="info">{waits}</Callout>}
      {promoted === null ? null : <p>{promoted}</p>}
      <div className="gc-Two gc-Schedule-two">
        <div>
          <h2>{trans.__('When it runs')}</h2>
          {schedule.schedule ? (
            <>
              <p>
                <code>{schedule.schedule}</code> {schedule.time_zone}
              </p>
              <NextTimes schedule={schedule} />
            </>
          ) : null}
          {(schedule.triggers ?? []).map(each => (
            <p key={each.words}>
              {msg.trigger(each)}{' '}
              <span className="gc-Muted">{msg.known(each, schedule)}</span>
              {each.problem ? (
                <span className="gc-Error"> {each.problem}</span>
              ) : null}
            </p>
          ))}
          <p className="gc-Muted">{msg.rules(schedule)}</p>
        </div>
        <LastRuns schedule={schedule} reload={props.reload} />
      </div>
    </section>
  );
}

function NextTimes({ schedule }: { schedule: ISchedule }): React.JSX.Element {
  const { trans } = usePanel();
  const msg = useWords(scheduleMessages);
  if (schedule.next_ms.length === 0) {
    return (
      <p className="gc-Muted">
        {schedule.suspend
          ? trans.__('No times while it is %1.', msg.suspended(schedule))
          : trans.__('Never again.')}
      </p>
    );
  }
  return (
    <div className="gc-Times" role="list" aria-label={trans.__('Next times')}>
      {schedule.next_ms.map(ms => {
        const at = zonedTime(ms, schedule.time_zone);
        return (
          <span role="listitem" key={ms}>
            {`${at.weekday} ${at.day}`} <b>{at.time}</b>
          </span>
        );
      })}
    </div>
  );
}

function LastRuns(props: {
  schedule: ISchedule;
  reload: () => Promise<void>;
}): React.JSX.Element {
  const { schedule } = props;
  const { model, trans } = usePanel();
  const [all, setAll] = React.useState<IScheduleRun[] | null>(null);
  const newest = schedule.runs;
  // What has happened since all were asked for stands in the list.
  const last = all?.[0]?.due_ms ?? 0;
  const since = newest.filter(each => each.due_ms > last);
  const runs = all === null ? newest : [...since, ...all];
  return (
    <div>
      <div className="gc-Row">
        <h2>{trans.__('Last runs')}</h2>
        {/* The hours of jobs elsewhere are the reader's own. */}
        <span className="gc-Muted">
          {runs.length > 0 ? schedule.time_zone : ''}
        </span>
        <span className="gc-Right">
          {all === null && newest.length >= LISTED_RUNS ? (
            <LinkButton
              onClick={() => {
                void scheduleOf(model.api, schedule).then(
                  found => {
                    setAll(found.runs);
                  },
                  () => undefined // the page says why, or it is gone with the next look
                );
              }}
            >
              {trans.__('All runs')}
            </LinkButton>
          ) : null}
        </span>
      </div>
      {runs.length === 0 ? (
        <p className="gc-Muted">{trans.__('None yet.')}</p>
      ) : (
        <table className="gc-Runs">
          <tbody>
            {runs.map(run => (
              <RunRow
                key={`${run.due_ms}-${run.outcome}`}
                run={run}
                schedule={schedule}
                reload={props.reload}
              />
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}

function RunRow(props: {
  run: IScheduleRun;
  schedule: ISchedule;
  reload: () => Promise<void>;
}): React.JSX.Element {
  const { run, schedule } = props;
  const { model, commands } = usePanel();
  const msg = useWords(scheduleMessages);
  const id = run.job_id;
  // What the list has left is in what the server says of the run.
  const listed = model.jobs?.find(each => each.id === id);
  const state =
    listed?.state ?? (run.job_state === FORGOTTEN ? null : run.job_state);
  const verdict = msg.verdict(run);
  return (
    <tr data-outcome={run.outcome}>
      <td>{msg.when(run, schedule.time_zone)}</td>
      <td className="gc-Muted">{msg.why(run)}</td>
      <td>
        {id == null ? (
          <span>
            <b>{msg.outcome(run)}</b> {run.text}.
          </span>
        ) : (
          <span className="gc-Row">
            <span
              className={`gc-Dot gc-tone-${state ? dot({ state }) : 'plain'}`}
              aria-hidden="true"
            />
            <LinkButton
              onClick={() => {
                void commands.execute(CommandIDs.openJob, { job: id });
              }}
            >
              {run.job_name}
            </LinkButton>
            <span className="gc-Muted">
              {listed ? msg.state(listed) : msg.jobState(run)}
            </span>
            {run.version ? (
              <span className="gc-Muted">{msg.version(run)}</span>
            ) : null}
          </span>
        )}
        {verdict === null ? null : (
          <div className="gc-Muted">
            {verdict}{' '}
            <Promotion run={run} schedule={schedule} reload={props.reload} />
          </div>
        )}
      </td>
    </tr>
  );
}

/** *Promote*, where there is a model that is not. */
function Promotion(props: {
  run: IScheduleRun;
  schedule: ISchedule;
  reload: () => Promise<void>;
}): React.JSX.Element | null {
  const { run, schedule } = props;
  const { model, trans } = usePanel();
  const [problem, setProblem] = React.useState<string | null>(null);
  const id = run.job_id;
  const isHeld = schedule.promoted?.job_id === id;
  if (id == null || isHeld || run.value == null || !schedule.steerable) {
    return null;
  }
  return (
    <>
      <LinkButton
        onClick={() => {
          promote(model.api, schedule, id)
            .then(() => {
              setProblem(null);
              return props.reload();
            })
            .catch((error: unknown) => {
              setProblem(told(error));
            });
        }}
      >
        {trans.__('Promote')}
      </LinkButton>
      {problem === null ? null : (
        <span className="gc-Error" role="alert">
          {problem}
        </span>
      )}
    </>
  );
}

function Steering(props: {
  schedule: ISchedule;
  reload: () => Promise<void>;
}): React.JSX.Element {
  const { schedule } = props;
  const { model, msg: words, trans } = usePanel();
  const msg = useWords(scheduleMessages);
  useNow(model);
  const [problem, setProblem] = React.useState<string | null>(null);
  const away = words.outOfReach(model.connection);
  const act = async (verb: ScheduleVerb): Promise<void> => {
    if (verb === 'remove' && !(await confirmed())) {
      return;
    }
    try {
      await steerSchedule(model.api, schedule, verb);
      setProblem(null);
    } catch (error) {
      setProblem(told(error));
    }
    await props.reload();
  };
  const confirmed = async (): Promise<boolean> => {
    const { button } = await showDialog({
      title: msg.removeTitle(schedule),
      body: msg.removeBody(schedule),
      buttons: [
        Dialog.cancelButton({ label: trans.__('Keep it') }),
        Dialog.warnButton({ label: trans.__('Remove') })
      ]
    });
    return button.accept;
  };
  const action = (shows: boolean, verb: ScheduleVerb, label: string) =>
    shows ? (
      <ActionButton
        hindrance={away}
        onClick={() => {
          void act(verb);
        }}
      >
        {label}
      </ActionButton>
    ) : null;
  const { steerable, suspend, mine, held } = schedule;
  // What others have suspended is not its owner's to change; those who may are told apart by the server.
  const isFree = !held || !mine;
  return (
    <span className="gc-Row gc-Right gc-Schedule-steering">
      {action(mine && !held, 'run', trans.__('Run now'))}
      {action(steerable && !suspend, 'suspend', trans.__('Suspend'))}
      {action(steerable && suspend && isFree, 'resume', trans.__('Resume'))}
      {action(steerable && isFree, 'remove', trans.__('Remove…'))}
      {problem === null ? null : (
        <span className="gc-Error" role="alert">
          {problem}
        </span>
      )}
    </span>
  );
}
