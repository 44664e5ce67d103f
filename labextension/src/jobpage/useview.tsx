/** The job's own use of its GPUs and their memory, below the attempts and to the same scale. */
import type * as React from 'react';

import { Fragment, h } from '../components/h';

import { usePanel, useWords } from '../components/context';
import { gpus } from '../text/format';
import { jobMessages } from './messages';
import type { IJobUse } from '../server/jobuse';
import type { IAttempt } from '../server/types';
import { HEIGHT, IBand, useView, WIDTH } from './use';

/** A mean over minutes, to a hundredth of a GPU. */
function rounded(milliGpu: number): number {
  return Math.round(milliGpu / 10) * 10;
}

export function UseView(props: {
  use: IJobUse | null;
  attempts: readonly IAttempt[];
  fromMs: number;
  toMs: number;
}): React.JSX.Element | null {
  const { trans } = usePanel();
  const msg = useWords(jobMessages);
  const { use } = props;
  if (use === null || use.asked_milli_gpu === 0) {
    return null;
  }
  const view = useView(use, props.attempts, props.fromMs, props.toMs);
  const memory = msg.memoryUsed(
    use.memory_used_mib_max ?? null,
    use.memory_held_mib ?? null
  );
  if (view === null || use.used_milli_gpu == null) {
    return <p className="gc-Muted">{use.text}</p>;
  }
  return (
    <>
      <Band
        band={view.gpus}
        label={trans.__('GPUs, of %1 held', gpus(rounded(view.mostMilliGpu)))}
        text={use.text}
      />
      <Band
        band={view.memory}
        label={trans.__('GPU memory')}
        text={use.simulated ? `${memory} (${trans.__('simulated')})` : memory}
      />
    </>
  );
}

function Band(props: {
  band: IBand;
  label: string;
  text: string;
}): React.JSX.Element {
  const { band, label, text } = props;
  return (
    <div className="gc-Use">
      <div className="gc-Row">
        <span className="gc-Muted">{label}</span>
        <strong className="gc-Right">{text}</strong>
      </div>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${label}: ${text}`}
      >
        <path className="gc-Use-held" d={band.held} />
        <path className="gc-Use-used" d={band.used} />
      </svg>
    </div>
  );
}
