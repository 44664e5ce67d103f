/** The table of trials, best first. */
import * as React from 'react';

import { usePanel, useWords } from '../components/context';
import { Fragment, h } from '../components/h';
import { LinkButton } from '../components/parts';
import { CommandIDs } from '../lab/ids';
import type { ISweep, ITrial, Value } from '../server/sweeps';
import { gpuHours, shortNumber } from '../text/format';
import { sweepMessages } from './messages';

const SHOWN = 12;
const TONES: Record<string, string> = {
  live: 'running',
  done: 'finished',
  failed: 'failed'
};

export function Trials({ sweep }: { sweep: ISweep }): React.JSX.Element {
  const { trans } = usePanel();
  const msg = useWords(sweepMessages);
  const [all, setAll] = React.useState(false);
  const { trials, metric } = sweep;
  const shown = all ? trials : trials.slice(0, SHOWN);
  const names = [...new Set(trials.flatMap(each => Object.keys(each.values)))];
  return (
    <section className="gc-Box gc-Trials">
      <div className="gc-Row">
        <h2>{msg.children(sweep)}</h2>
        <span className="gc-Row gc-Right gc-Muted">
          {metric === '' ? null : msg.shown(shown.length, trials.length)}
          {trials.length > SHOWN ? (
            <LinkButton
              onClick={() => {
                setAll(!all);
              }}
            >
              {all ? trans.__('Show fewer') : trans.__('Show all')}
            </LinkButton>
          ) : null}
        </span>
      </div>
      <div className="gc-Trials-scroll">
        <table className="gc-Runs">
          <thead>
            <tr>
              <th scope="col">{msg.child(sweep)}</th>
              <th scope="col">{trans.__('State')}</th>
              {metric === '' ? null : (
                <>
                  <th scope="col">{trans.__('Step')}</th>
                  <th scope="col">{metric}</th>
                </>
              )}
              {names.map(name => (
                <th scope="col" key={name}>
                  {name}
                </th>
              ))}
              <th scope="col">{trans.__('GPU-h')}</th>
            </tr>
          </thead>
          <tbody>
            {shown.map(each => (
              <TrialRow
                key={each.number}
                trial={each}
                metric={metric}
                names={names}
              />
            ))}
          </tbody>
        </table>
      </div>
      <p className="gc-Muted">{msg.asOne(sweep)}</p>
    </section>
  );
}

function TrialRow(props: {
  trial: ITrial;
  metric: string;
  names: string[];
}): React.JSX.Element {
  const { trial, metric, names } = props;
  const { commands, trans } = usePanel();
  const msg = useWords(sweepMessages);
  const job = trial.job_id;
  return (
    <tr data-state={trial.state} title={trial.text || undefined}>
      <td>
        {job == null ? (
          trial.number
        ) : (
          <LinkButton
            label={trans.__('Open the job %1', trial.job_name)}
            onClick={() => {
              void commands.execute(CommandIDs.openJob, { job });
            }}
          >
            {trial.number}
          </LinkButton>
        )}
      </td>
      <td>
        <span className="gc-Row">
          <span
            className={`gc-Dot gc-tone-${TONES[trial.state] ?? 'plain'}`}
            aria-hidden="true"
          />
          {msg.trialState(trial)}
        </span>
      </td>
      {metric === '' ? null : (
        <>
          <td>{trial.step}</td>
          <td>{trial.best == null ? '–' : shortNumber(trial.best)}</td>
        </>
      )}
      {names.map(name => (
        <td key={name}>{valueText(trial.values[name])}</td>
      ))}
      <td>{gpuHours(trial.milli_gpu_s)}</td>
    </tr>
  );
}

/** As a table shows it. */
export function valueText(value: Value | undefined): string {
  return value === undefined
    ? '–'
    : typeof value === 'number'
      ? shortNumber(value)
      : String(value);
}
