/** Below the curve: hints, and when a metric likely comes to a goal that the reader names. */
import * as React from 'react';

import { usePanel } from '../components/context';
import { h } from '../components/h';
import { ActionButton, Callout } from '../components/parts';
import { currentAttempt, isFinal } from '../model/jobs';
import type { ICurveOutlook } from '../server/plans';
import type { ICurvePoint, IJob } from '../server/types';
import { useAttempt } from './attempt';
import { goalOf, hintsOf, metricsOf, outlookText, sizeRows } from './outlook';

/** A curve changes slowly, and reading on from it takes the server a moment. */
const LOOK_EVERY_MS = 60_000;
/** Fewer say nothing of where a curve goes. */
const LEAST_POINTS = 12;

export function OutlookView(props: {
  job: IJob;
  points: readonly ICurvePoint[];
}): React.JSX.Element | null {
  const { model, msg, trans } = usePanel();
  const { job, points } = props;
  const names = React.useMemo(() => metricsOf(points), [points]);
  const [chosen, setChosen] = React.useState('');
  const [typed, setTyped] = React.useState('');
  const [asked, setAsked] = React.useState<ICurveOutlook | null>(null);
  const { isBusy, problem, attempt } = useAttempt();
  const metric = chosen || (names[0] ?? '');
  const hints = useHints(job, points);
  if (points.length < LEAST_POINTS || metric === '') {
    return null;
  }
  const goal = goalOf(typed);
  const ask = async () => {
    if (goal === null) {
      return;
    }
    await attempt(async () => {
      try {
        setAsked(await outlook(model.api, job.id, metric, goal));
      } catch (error) {
        setAsked(null);
        throw error;
      }
    });
  };
  const milliGpu = (currentAttempt(job) ?? job.attempts.at(-1))?.milli_gpu ?? 0;
  const shown = asked?.metric === metric ? hintsOf(asked, msg) : hints;
  return (
    <section className="gc-Outlook" aria-label={trans.__('Time to a goal')}>
      {shown.map(hint => (
        <Callout key={hint} tone="info">
          {hint}
        </Callout>
      ))}
      <form
        className="gc-Row"
        onSubmit={event => {
          event.preventDefault();
          void ask();
        }}
      >
        <label htmlFor="gc-outlook-goal">{trans.__('When does')}</label>
        <select
          className="gc-Rank"
          aria-label={trans.__('Metric')}
          value={metric}
          onChange={event => {
            setChosen(event.target.value);
            setAsked(null);
          }}
        >
          {names.map(name => (
            <option key={name}>{name}</option>
          ))}
        </select>
        <label htmlFor="gc-outlook-goal">{trans.__('come to')}</label>
        <input
          id="gc-outlook-goal"
          className="jp-mod-styled gc-Input"
          inputMode="decimal"
          placeholder="0.95"
          value={typed}
          aria-invalid={typed !== '' && goal === null ? true : undefined}
          onChange={event => {
            setTyped(event.target.value);
            setAsked(null);
          }}
        />
        <ActionButton
          isBusy={isBusy}
          hindrance={goal === null ? trans.__('Type a number, as 0.95.') : null}
          onClick={() => {
            void ask();
          }}
        >
          {trans.__('Ask')}
        </ActionButton>
      </form>
      {problem}
      {asked ? (
        <Answer found={asked} job={job} gpusNow={milliGpu / 1000} />
      ) : null}
    </section>
  );
}

function Answer(props: {
  found: ICurveOutlook;
  job: IJob;
  gpusNow: number;
}): React.JSX.Element {
  const { msg, trans } = usePanel();
  const { found, gpusNow } = props;
  const rows = sizeRows(found, gpusNow, msg);
  return (
    <div role="status">
      <p>{outlookText(found, msg)}</p>
      {rows.length > 0 ? (
        <table className="gc-Runs">
          <thead>
            <tr>
              <th scope="col">{trans.__('GPUs')}</th>
              <th scope="col">
                {isFinal(props.job)
                  ? trans.__('More running that would take')
                  : trans.__('More running')}
              </th>
              <th scope="col">{trans.__('Known from')}</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(row => (
              <tr key={row.gpus}>
                <td>{row.gpus}</td>
                <td>{row.more}</td>
                <td>{row.basis}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : null}
      <p className="gc-Muted">
        {[
          rows.length === 1
            ? trans.__(
                'For other numbers of GPUs nothing is known: it took no plan, and its own runs do not tell.'
              )
            : '',
          rows.length > 0
            ? trans.__('In eight of ten cases; waits for GPUs come on top.')
            : '',
          found.simulated
            ? trans.__('Its GPUs are simulated: other numbers are an example.')
            : '',
          trans.__('Nothing is stopped by it.')
        ]
          .filter(Boolean)
          .join(' ')}
      </p>
    </div>
  );
}

/** What the curve says without a question; a goal that it has come to costs no reading on. */
function useHints(job: IJob, points: readonly ICurvePoint[]): string[] {
  const { model, msg } = usePanel();
  const [hints, setHints] = React.useState<string[]>([]);
  const newest = React.useRef(points);
  newest.current = points;
  const isKnown = points.length >= LEAST_POINTS;
  const isOver = isFinal(job);
  React.useEffect(() => {
    if (!isKnown) {
      return;
    }
    let isGone = false;
    const look = () => {
      const metric = metricsOf(newest.current)[0];
      const last = newest.current.at(-1)?.metrics[metric ?? ''];
      if (document.hidden || metric === undefined || last === undefined) {
        return;
      }
      outlook(model.api, job.id, metric, last).then(
        found => {
          if (!isGone) {
            setHints(hintsOf(found, msg));
          }
        },
        // The next look asks again.
        () => undefined
      );
    };
    look();
    const timer = isOver ? 0 : window.setInterval(look, LOOK_EVERY_MS);
    return () => {
      isGone = true;
      window.clearInterval(timer);
    };
  }, [job.id, isKnown, isOver]);
  return hints;
}

function outlook(
  api: ReturnType<typeof usePanel>['model']['api'],
  ref: string,
  metric: string,
  goal: number
): Promise<ICurveOutlook> {
  const asked = new URLSearchParams({ metric, goal: String(goal) });
  const query = `?${asked.toString()}`;
  const path = ['api', 'jobs', ref, 'outlook'];
  return api.request('GET', path, undefined, { query });
}
