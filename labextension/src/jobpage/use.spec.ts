/** What a job used of its GPUs, as blocks below its attempts. */
import { describe, expect, it } from 'vitest';

import type { IJobUse, IUseSpan } from '../server/jobuse';
import { makeAttempt } from '../testing/make';
import { useView } from './use';

function span(from: number, used: number | null): IUseSpan {
  return {
    from_ms: from,
    to_ms: from + 100,
    held_milli_gpu: 2000,
    used_milli_gpu: used,
    memory_used_mib: used
  };
}

function use(...spans: IUseSpan[]): IJobUse {
  return {
    spans,
    asked_milli_gpu: 2000,
    simulated: false,
    used_milli_gpu: 500,
    memory_used_mib_max: 1000,
    text: 'asked 2 GPUs, used 0.5'
  };
}

/** Held from the beginning, up to a time or still. */
function held(untilMs: number | null = null) {
  return [makeAttempt({ ended_ms: untilMs })];
}

describe('use of GPUs', () => {
  it('is drawn to the scale of the attempts', () => {
    const view = useView(use(span(0, 500)), held(100), 0, 200);
    expect(view?.gpus.held).toBe('M0 40V0H500V40Z');
    expect(view?.gpus.used).toBe('M0 40V30H500V40Z');
    expect(view?.memory.used).toBe('M0 40V20H500V40Z');
  });

  it('shows what is held up to this moment, before its minute is measured', () => {
    const view = useView(use(span(0, 500)), held(), 0, 200);
    expect(view?.gpus.held).toBe('M0 40V0H1000V40Z');
    expect(view?.gpus.used).toBe('M0 40V30H500V40Z');
  });

  it('draws each attempt as high as it held', () => {
    const two = [
      makeAttempt({ ended_ms: 100 }),
      makeAttempt({ reserved_ms: 150, milli_gpu: 1000 })
    ];
    const view = useView(use(span(0, 500)), two, 0, 200);
    expect(view?.gpus.held).toBe('M0 40V0H500V40ZM750 40V20H1000V40Z');
    expect(view?.mostMilliGpu).toBe(2000);
  });

  it('draws memory as a part of what was held, where that is known', () => {
    const known = { ...use(span(0, 500)), memory_held_mib: 20_000 };
    expect(useView(known, held(), 0, 200)?.memory.used).toBe(
      'M0 40V39H500V40Z'
    );
  });

  it('has a gap where nothing was measured', () => {
    const view = useView(use(span(0, 500), span(100, null)), held(), 0, 200);
    expect(view?.gpus.used.match(/Z/g)).toHaveLength(1);
  });

  it('stays within its time', () => {
    const spans = use(span(-50, 500), span(150, 500));
    const view = useView(spans, held(), 0, 200);
    expect(view?.gpus.used).toBe('M0 40V30H250V40ZM750 40V30H1000V40Z');
  });

  it('is nothing without GPUs', () => {
    expect(useView(null, held(), 0, 1)).toBeNull();
    expect(useView(use(), held(), 0, 1)).toBeNull();
    expect(useView(use(span(0, 1)), [], 0, 1)).toBeNull();
  });
});
