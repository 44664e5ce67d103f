/** "Files": what the job wrote, where it is, and each file to be opened. */
import * as React from 'react';

import { h } from '../components/h';

import { bytes } from '../text/format';
import { visible } from '../text/visible';
import { isFinal } from '../model/jobs';
import type { ITracked, ITrackedRun } from '../server/jobuse';
import { IJob, IResults, IWhoAmI } from '../server/types';
import { usePanel } from '../components/context';
import { LinkButton } from '../components/parts';
import { showFolder } from '../lab/folder';

/** Until it is asked again, while files are on their way. */
const PAUSES_MS = new Map([
  ['later', 1_000],
  ['copying', 2_000],
  ['away', 10_000]
]);
/** More are counted. */
const SHOWN = 100;
/** Something that it wrote is not where results go. */
const NOT_COPIED = new Set<IResults['state']>(['stayed', 'left_out', 'lost']);

export function ResultsView({ job }: { job: IJob }): React.JSX.Element | null {
  const { model } = usePanel();
  const results = useResults(job);
  return results === null ? null : (
    <Results results={openable(results, job, model.whoami)} />
  );
}

/** A team-mate's folder is not in one's own file browser: it is named, and nothing opens it. */
export function openable(
  results: IResults,
  job: IJob,
  whoami: IWhoAmI | null
): IResults {
  return job.owner === whoami?.name ? results : { ...results, folder: null };
}

export function Results({ results }: { results: IResults }): React.JSX.Element {
  const { trans } = usePanel();
  const more = results.count - Math.min(results.files.length, SHOWN);
  const left = results.not_brought.slice(0, SHOWN);
  const others = (results.not_brought_count ?? 0) - left.length;
  return (
    <div className="gc-Box gc-Results">
      <h2>{trans.__('Files')}</h2>
      <p className={NOT_COPIED.has(results.state) ? 'gc-tone-error' : ''}>
        {results.text}{' '}
        {results.state === 'here' && results.folder ? (
          <ShowFolder folder={results.folder} />
        ) : null}
      </p>
      {results.files.length > 0 ? (
        <ul>
          {results.files.slice(0, SHOWN).map(file => (
            <li key={file.path} className="gc-Row">
              <File results={results} path={file.path} />
              <span className="gc-Muted gc-Right">
                {bytes(file.size_bytes)}
              </span>
            </li>
          ))}
        </ul>
      ) : null}
      {more > 0 ? (
        <p className="gc-Muted">{trans.__('and %1 more', more)}</p>
      ) : null}
      {left.map(one => (
        <p key={one.path} className="gc-Muted">
          {trans.__('Not copied: %1 %2.', visible(one.path), one.reason)}
        </p>
      ))}
      {others > 0 ? (
        <p className="gc-Muted">{trans.__('and %1 more', others)}</p>
      ) : null}
    </div>
  );
}

/** Asked for with the page, when the job is over, and while its files are on their way. */
function useResults(job: IJob): IResults | null {
  const { model } = usePanel();
  const [results, setResults] = React.useState<IResults | null>(null);
  const [asked, setAsked] = React.useState(0);
  const isOver = isFinal(job);
  React.useEffect(() => {
    let isGone = false;
    model.api.job(job.id).then(
      found => {
        if (!isGone) {
          setResults(found.results ?? null);
        }
      },
      () => undefined
    );
    return () => {
      isGone = true;
    };
  }, [job.id, isOver, asked]);
  const state = results?.state;
  const pauseMs = isOver ? PAUSES_MS.get(state ?? 'none') : undefined;
  React.useEffect(() => {
    if (pauseMs === undefined) {
      return;
    }
    const timer = window.setTimeout(() => {
      setAsked(asked + 1);
    }, pauseMs);
    return () => {
      window.clearTimeout(timer);
    };
  }, [pauseMs, asked]);
  return results;
}

function File(props: { results: IResults; path: string }): React.JSX.Element {
  const { commands, trans } = usePanel();
  const { results, path } = props;
  if (results.state !== 'here' || !results.folder) {
    return <span>{visible(path)}</span>;
  }
  return (
    <LinkButton
      label={trans.__('Open %1', visible(path))}
      onClick={() => {
        void commands.execute('docmanager:open', {
          path: `${results.folder}/${path}`
        });
      }}
    >
      {visible(path)}
    </LinkButton>
  );
}

function ShowFolder({ folder }: { folder: string }): React.JSX.Element {
  const { model, commands, trans } = usePanel();
  return (
    <LinkButton
      onClick={() => {
        void showFolder(commands, folder).then(isShown => {
          if (!isShown) {
            window.open(model.api.folderUrl(folder));
          }
        });
      }}
    >
      {trans.__('Show the folder')}
    </LinkButton>
  );
}

/** Runs of MLflow that the job logged, with links to what they have. */
export function TrackedView(props: {
  tracked: ITracked | undefined;
}): React.JSX.Element | null {
  const { trans } = usePanel();
  const { tracked } = props;
  if (tracked === undefined) {
    return null;
  }
  if (tracked.problem !== '') {
    return <p className="gc-Muted">{tracked.problem}</p>;
  }
  if (tracked.runs.length === 0) {
    return null;
  }
  const heading = trans.__('Runs in MLflow');
  return (
    <section className="gc-Box gc-Tracked" aria-label={heading}>
      <h2>{heading}</h2>
      <ul>
        {tracked.runs.map(run => (
          <TrackedRun key={run.run_id} run={run} />
        ))}
      </ul>
    </section>
  );
}

function TrackedRun({ run }: { run: ITrackedRun }): React.JSX.Element {
  const { trans } = usePanel();
  const metrics = trans._n('%1 metric', '%1 metrics', run.metrics);
  return (
    <li>
      <Away url={run.url}>{run.name}</Away>{' '}
      <span className="gc-Muted">
        {run.status} · <code>{run.run_id}</code>
      </span>{' '}
      {run.metrics_url ? (
        <span>
          · <Away url={run.metrics_url}>{metrics}</Away>
        </span>
      ) : null}{' '}
      {run.artifacts_url ? (
        <span>
          · <Away url={run.artifacts_url}>{trans.__('artifacts')}</Away>
        </span>
      ) : null}
    </li>
  );
}

function Away(props: {
  url: string;
  children: React.ReactNode;
}): React.JSX.Element {
  return (
    <a
      className="gc-Link"
      href={props.url}
      target="_blank"
      rel="noopener noreferrer"
    >
      {props.children}
    </a>
  );
}
