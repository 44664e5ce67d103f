/** *Jobs*: mine and my teams', each with its state, how far it is, or why it waits. */
import * as React from 'react';

import { Fragment, h } from '../components/h';

import { announcement } from '../model/announce';
import { CommandIDs, pagesOf } from '../lab/ids';
import {
  isFinal,
  isWaiting,
  jobRow,
  sorted,
  startableWith
} from '../model/jobs';
import { IJob } from '../server/types';
import { useNow, usePanel, useTopics } from '../components/context';
import { Bar, LinkButton, Pill, Section } from '../components/parts';

export function Jobs(): React.JSX.Element {
  const { model, commands, finishedShown, trans } = usePanel();
  useTopics(model, ['jobs', 'status']);
  const [showsAll, setShowsAll] = React.useState(false);
  // Looks at data come every few minutes: what they found stands on the page of schedules.
  const listed =
    model.jobs?.filter(each => each.part_of?.kind !== 'look') ?? null;
  const jobs = sorted(listed ?? []);
  const finished = jobs.filter(isFinal);
  const hidden = showsAll ? [] : finished.slice(finishedShown);
  const shown = jobs.filter(job => !hidden.includes(job));
  return (
    <Section
      id="jobs"
      title={trans.__('Jobs')}
      aside={
        <>
          {shown.some(job => job.simulated) ? (
            <Pill>{trans.__('simulated')}</Pill>
          ) : null}
          {pagesOf(trans).map(([command, label]) => (
            <LinkButton
              key={command}
              onClick={() => {
                void commands.execute(command);
              }}
            >
              {label}
            </LinkButton>
          ))}
          {finished.length > finishedShown ? (
            <LinkButton
              onClick={() => {
                setShowsAll(!showsAll);
              }}
            >
              {showsAll ? trans.__('Fewer') : trans.__('All jobs')}
            </LinkButton>
          ) : null}
        </>
      }
    >
      <ul className="gc-Jobs">
        {shown.map(job => (
          <JobRow key={job.id} job={job} />
        ))}
      </ul>
      {shown.length === 0 ? (
        <p className="gc-Muted">
          {model.jobs === null
            ? trans.__('No data yet.')
            : trans.__('No jobs yet. Start one below.')}
        </p>
      ) : null}
      <Announcer jobs={listed} />
    </Section>
  );
}

/** The only live region: it speaks when the queue changes, never every second. */
function Announcer({
  jobs
}: {
  jobs: readonly IJob[] | null;
}): React.JSX.Element {
  const { msg } = usePanel();
  const before = React.useRef(jobs);
  const [told, setTold] = React.useState('');
  React.useEffect(() => {
    const news = announcement(before.current, jobs, msg);
    before.current = jobs;
    if (news !== '') {
      setTold(news);
    }
  }, [jobs, msg]);
  return (
    <div className="gc-mod-spoken" aria-live="polite">
      {told}
    </div>
  );
}

function JobRow({ job }: { job: IJob }): React.JSX.Element {
  const { model, msg } = usePanel();
  const now = useNow(model);
  const row = jobRow(job, now, msg);
  const isMine = job.owner === '' || job.owner === model.whoami?.name;
  const startWith = startableWith(job, model);
  return (
    <li className="gc-Job" data-job={job.id} data-state={job.state}>
      <div className="gc-Row">
        <span className={`gc-Dot gc-tone-${row.dot}`} aria-hidden="true" />
        <JobLink job={job} />
        {isMine ? null : <span className="gc-Muted">{job.owner}</span>}
        <span className="gc-Muted gc-Right">{row.state}</span>
      </div>
      {row.percent !== null ? (
        <Bar
          label={job.name}
          isThin
          parts={[{ percent: row.percent, tone: row.dot }]}
        />
      ) : null}
      {row.sentence ? (
        <div className="gc-Job-sentence">{row.sentence}</div>
      ) : null}
      <Unblock job={job} />
      {row.left || row.right || startWith > 0 ? (
        <div className="gc-Row gc-Muted">
          <span>{row.left}</span>
          <span className="gc-Right">
            {startWith === 0 ? row.right : <StartNow job={job} />}
          </span>
        </div>
      ) : null}
    </li>
  );
}

export function JobLink({ job }: { job: IJob }): React.JSX.Element {
  const { commands } = usePanel();
  return (
    <LinkButton
      onClick={() => {
        void commands.execute(CommandIDs.openJob, { job: job.id });
      }}
    >
      {job.name}
    </LinkButton>
  );
}

/** What its owner can do about what is in the way of a job. */
export function Unblock({ job }: { job: IJob }): React.JSX.Element | null {
  const { msg, commands } = usePanel();
  const blocker = isWaiting(job) ? job.reason?.blocker : null;
  const text = msg.unblock(blocker?.action);
  return blocker ? (
    <div className="gc-Job-sentence">
      {blocker.text}{' '}
      {text ? (
        <LinkButton
          onClick={() => {
            void commands.execute(CommandIDs.unblock, { job: job.id });
          }}
        >
          {text}
        </LinkButton>
      ) : null}
    </div>
  ) : null;
}

/** The smaller size with which a waiting job would start now, as what to do. */
export function StartNow({ job }: { job: IJob }): React.JSX.Element | null {
  const { model, msg, commands } = usePanel();
  const size = startableWith(job, model);
  return size === 0 ? null : (
    <LinkButton
      title={msg.startNowTitle()}
      onClick={() => {
        void commands.execute(CommandIDs.startSmaller, { job: job.id });
      }}
    >
      {msg.startNowWith(size, job.workers)}
    </LinkButton>
  );
}
