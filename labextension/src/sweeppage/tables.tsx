/** What charts show, in words: for who does not see them. */
import type * as React from 'react';

import { usePanel } from '../components/context';
import { h } from '../components/h';
import type { IFigures } from '../server/sweeps';
import { clock, gpus as gpuWords, shortNumber } from '../text/format';
import type { IPoint } from './charts';

export function BestTable(props: {
  points: readonly IPoint[];
  metric: string;
}): React.JSX.Element {
  const { trans } = usePanel();
  return (
    <Spoken
      caption={trans.__('The best value over time')}
      head={[trans.__('Time'), trans.__('Trial'), props.metric]}
      rows={props.points.map(({ at, trial, value }) => [
        clock(at),
        String(trial),
        shortNumber(value)
      ])}
    />
  );
}

export function GpusTable(props: {
  gpus: IFigures['gpus'];
}): React.JSX.Element {
  const { trans } = usePanel();
  // Only where it changes: else it would be read out minute by minute.
  const changes = props.gpus.filter(
    (each, index, all) => each.milli_gpu !== all[index - 1]?.milli_gpu
  );
  return (
    <Spoken
      caption={trans.__('GPUs in use over time, mean of each minute')}
      head={[trans.__('From'), trans.__('GPUs')]}
      rows={changes.map(each => [clock(each.at_ms), gpuWords(each.milli_gpu)])}
    />
  );
}

function Spoken(props: {
  caption: string;
  head: string[];
  rows: string[][];
}): React.JSX.Element {
  return (
    <table className="gc-mod-spoken">
      <caption>{props.caption}</caption>
      <thead>
        <tr>
          {props.head.map(each => (
            <th key={each} scope="col">
              {each}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {props.rows.map((row, index) => (
          <tr key={index}>
            {row.map((cell, column) => (
              <td key={column}>{cell}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
