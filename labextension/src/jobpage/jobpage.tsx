/** A job's page: what it is, what happened to it, its curve, its log. */
import type * as React from 'react';

import { Fragment, h } from '../components/h';
import { DataView } from '../advice/dataview';
import { OutlookView } from '../advice/outlookview';
import { bytes, clock, duration, gpus } from '../text/format';
import { fileName, visible } from '../text/visible';
import { FollowedJob } from '../model/followed';
import { CommandIDs } from '../lab/ids';
import {
  beganWords,
  canCancel,
  canPause,
  canResume,
  canRunAgain,
  canRunFromHere,
  currentAttempt,
  dot,
  goesOnIn,
  isFinal,
  maySteer,
  progressText,
  stepText,
  stopWords,
  timeLeftMs,
  workersOf
} from '../model/jobs';
import { IJob } from '../server/types';
import {
  useNow,
  usePanel,
  useSignal,
  useTopics,
  useWords
} from '../components/context';
import { CurveView } from './curveview';
import { jobMessages } from './messages';
import { LogView } from './logview';
import { JobLink, StartNow, Unblock } from '../panel/jobs';
import {
  ActionButton,
  Bar,
  Callout,
  LinkButton,
  Pill
} from '../components/parts';
import { Standing } from '../panel/panel';
import { PlanView } from '../advice/planview';
import { ResultsView, TrackedView } from './resultsview';
import { TimelineView } from './timelineview';
import { Place, Warnings, WorkersView } from './workersview';

export function JobPage(props: { followed: FollowedJob }): React.JSX.Element {
  const { model, msg } = usePanel();
  const { followed } = props;
  useSignal(followed.changed);
  useTopics(model, ['status', 'jobs']);
  const job = followed.job;
  if (job === null) {
    return (
      <div className="gc-JobPage">
        <p className="gc-Muted">{msg.connecting()}</p>
      </div>
    );
  }
  return (
    <div className="gc-JobPage">
      <Standing />
      <Header job={job} />
      <div className={model.connection === 'ok' ? '' : 'gc-mod-stale'}>
        <Facts job={job} />
        <Warnings error={job.reports_refused} texts={job.warnings ?? []} />
        <Notes job={job} />
        <GoingOn job={job} />
        <TimelineView job={job} use={followed.use} />
        <DataView job={job} />
        <PlanView plan={followed.plan} />
        <TrackedView tracked={followed.tracked} />
        <ResultsView job={job} />
      </div>
      <div className="gc-Two">
        <div>
          <CurveView followed={followed} isOver={isFinal(job)} />
          <OutlookView job={job} points={followed.points} />
          <WorkersView job={job} />
        </div>
        <LogView
          followed={followed}
          workers={Math.max(
            job.workers,
            ...job.attempts.map(each => workersOf(job, each))
          )}
        />
      </div>
    </div>
  );
}

function Header({ job }: { job: IJob }): React.JSX.Element {
  const { model, commands, trans } = usePanel();
  const msg = useWords(jobMessages);
  useTopics(model, ['status', 'jobs']);
  const mine = maySteer(job, model.whoami);
  const away = msg.outOfReach(model.connection);
  const action = (shows: boolean, command: string, label: string) =>
    shows ? (
      <ActionButton
        hindrance={away}
        onClick={() => {
          void commands.execute(command, { job: job.id });
        }}
      >
        {label}
      </ActionButton>
    ) : null;
  // What was green may be over by now.
  const tone = away === null ? dot(job) : 'plain';
  const held = isFinal(job) ? null : msg.holdClass(job);
  return (
    <header className="gc-Row gc-JobHeader">
      <span className={`gc-Dot gc-tone-${tone}`} aria-hidden="true" />
      <h1>{job.name}</h1>
      <Pill tone={tone}>{msg.state(job)}</Pill>
      {held !== null ? (
        <Pill tone={job.hold_class === 'over-quota' ? 'borrow' : 'plain'}>
          {held}
        </Pill>
      ) : null}
      {job.safe_to_borrow ? (
        <Pill tone="good">{trans.__('safe to borrow')}</Pill>
      ) : null}
      {job.simulated ? <Pill>{trans.__('simulated')}</Pill> : null}
      <span className="gc-Row gc-Right">
        {action(mine && canPause(job), CommandIDs.pauseJob, trans.__('Pause'))}
        {action(
          mine && canResume(job),
          CommandIDs.resumeJob,
          trans.__('Resume')
        )}
        {action(
          mine && canCancel(job),
          CommandIDs.cancelJob,
          trans.__('Cancel')
        )}
        {action(
          canRunFromHere(job, model),
          CommandIDs.runFromHere,
          trans.__('Run again from here')
        )}
        {action(canRunAgain(job), CommandIDs.runAgain, trans.__('Run again…'))}
      </span>
    </header>
  );
}

function Fact(props: {
  head: string;
  children: React.ReactNode;
}): React.JSX.Element {
  return (
    <div className="gc-Fact">
      <b>{props.head}</b>
      <span className="gc-Muted">{props.children}</span>
    </div>
  );
}

function Facts({ job }: { job: IJob }): React.JSX.Element {
  const { model, trans } = usePanel();
  const msg = useWords(jobMessages);
  const now = useNow(model);
  const saved = job.checkpoint;
  return (
    <div className="gc-Facts">
      <Fact head={sizeWords(job, model.gpuKind(job))}>
        <Place job={job} />
      </Fact>
      {job.progress ? (
        <Fact head={progressText(job.progress, msg).split(' · ')[0] ?? ''}>
          <ProgressWords job={job} />
        </Fact>
      ) : null}
      {saved || !isFinal(job) ? (
        <Fact head={saved ? msg.saved(now - saved.at_ms) : msg.notSaved()}>
          {saved
            ? trans.__(
                '%1, %2, verified',
                stepText(job, saved.step, msg),
                bytes(saved.size_bytes)
              )
            : beganWords(job, msg)}
        </Fact>
      ) : null}
      <Fact head={msg.gpuH(job.held_milli_gpu_s)}>
        {msg.lost(job.lost_milli_gpu_s, !job.checkpoint)}
      </Fact>
      <Fact head={job.owner ? `${job.team} · ${job.owner}` : job.team}>
        <SourceWords job={job} />
      </Fact>
    </div>
  );
}

function sizeWords(job: IJob, kind: string | null): string {
  const milliGpu = currentAttempt(job)?.milli_gpu ?? job.milli_gpu;
  if (milliGpu === 0) {
    return 'CPU';
  }
  if (kind === null) {
    return `${gpus(milliGpu)} GPU`;
  }
  return milliGpu < 1000
    ? `${gpus(milliGpu)} ${kind}`
    : `${gpus(milliGpu)} × ${kind}`;
}

function ProgressWords(props: { job: IJob }): React.JSX.Element {
  const { model, trans } = usePanel();
  const { progress } = props.job;
  const left = timeLeftMs(props.job, model.shownMs);
  const words = [
    progress?.total_steps &&
      `${Math.floor((100 * progress.step) / progress.total_steps)} %`,
    left !== null && trans.__('about %1 left', duration(left))
  ];
  return <>{words.filter(Boolean).join(', ')}</>;
}

function SourceWords({ job }: { job: IJob }): React.JSX.Element {
  const { commands, trans } = usePanel();
  const at = clock(job.submitted_ms);
  const source = job.source;
  const origin = <Origin job={job} />;
  // The snapshot's folder is where results come back to.
  const folder = (job.request?.results_to ?? '').replace(/^\.\/?/, '');
  return source ? (
    <>
      {trans.__('from')}{' '}
      <LinkButton
        label={trans.__('Open %1', visible(source))}
        onClick={() => {
          void commands.execute('docmanager:open', {
            path: folder ? `${folder}/${source}` : source
          });
        }}
      >
        {fileName(source)}
      </LinkButton>
      {`, ${at}`}
      {origin}
    </>
  ) : (
    <>
      {trans.__('submitted %1', at)}
      {origin}
    </>
  );
}

/** The program that submitted it, or the schedule that it is a run of. */
function Origin({ job }: { job: IJob }): React.JSX.Element | null {
  const { commands, trans } = usePanel();
  const program = job.request?.labels?.origin;
  if (!program) {
    return null;
  }
  // A pipeline's jobs name the one that they are a step of.
  const [, kind, name] = /^(schedule|pipeline) (.+)$/.exec(program) ?? [];
  return name === undefined ? (
    <>{` ${trans.__('with %1', program)}`}</>
  ) : (
    <>
      {` ${trans.__('with')} `}
      <LinkButton
        onClick={() => {
          const wanted = `${job.owner}/${name}`;
          const page =
            kind === 'schedule' ? CommandIDs.schedules : CommandIDs.pipelines;
          void commands.execute(page, { wanted });
        }}
      >
        {kind === 'schedule'
          ? trans.__('schedule %1', name)
          : trans.__('pipeline %1', name)}
      </LinkButton>
    </>
  );
}

/** How it goes on after a stop, unless its reason has said so, and how often it began anew. */
function GoingOn({ job }: { job: IJob }): React.JSX.Element | null {
  const { trans } = usePanel();
  const way = job.way_to_go_on;
  const shown = job.drill;
  if (!way || currentAttempt(job)?.stop) {
    return shown ? (
      <Callout tone={shown.state === 'failed' ? 'error' : 'info'}>
        {shown.text}
      </Callout>
    ) : null;
  }
  const waits = currentAttempt(job) === null;
  const when = waits
    ? trans.__('When it starts again:')
    : trans.__('If it is stopped:');
  const isSaid = waits && way.in_reason === true;
  return isSaid && !way.began_anew_text && !shown ? null : (
    <Callout tone={way.way === 'checkpoint' ? 'good' : 'info'}>
      {isSaid ? null : <b>{when} </b>}
      {[isSaid ? '' : `${way.text}.`, way.began_anew_text]
        .join(' ')
        .trim()}{' '}
      {shown ? <span className="gc-Muted">{shown.text}</span> : null}
    </Callout>
  );
}

/** Why it waits, that it will be stopped, how it ended. */
function Notes({ job }: { job: IJob }): React.JSX.Element | null {
  const { model, trans } = usePanel();
  const msg = useWords(jobMessages);
  const now = useNow(model);
  const stop = currentAttempt(job)?.stop;
  if (stop) {
    return (
      <Callout tone="borrow">
        {stopWords(job, stop, now, msg)}
        <Bar
          label={trans.__('Time left')}
          isThin
          parts={[
            {
              percent:
                (100 * Math.max(0, stop.kill_ms - now)) /
                Math.max(1, stop.kill_ms - stop.announced_ms),
              tone: 'borrow'
            }
          ]}
        />
      </Callout>
    );
  }
  const next = goesOnIn(job, model.jobs);
  if (next) {
    return (
      <Callout tone="info">
        {trans.__('Goes on in')} <JobLink job={next} />
      </Callout>
    );
  }
  if (job.state === 'failed') {
    return <Callout tone="error">{job.ended_text}</Callout>;
  }
  if (!isFinal(job) && job.reason) {
    const sentences = [
      job.reason.text,
      job.position != null ? `${msg.inLine(job.position)}.` : null,
      job.forecast ? msg.likelyInFull(job.forecast) : null,
      job.reason.unblock,
      ...(job.forecast?.ways ?? [])
    ];
    return (
      <Callout tone="info">
        {[...new Set(sentences)].filter(Boolean).join(' ')}{' '}
        <StartNow job={job} />
        <Unblock job={job} />
      </Callout>
    );
  }
  return null;
}
