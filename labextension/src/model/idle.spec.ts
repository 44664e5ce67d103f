import { describe, expect, it } from 'vitest';

import { idleLength, idleLine, idleNotice } from './idle';
import { makeLease, msg } from '../testing/make';
import type { Keeps } from '../server/lostkernels';
import { IIdle } from '../server/types';

const MINUTE = 60_000;
/** JupyterLab cuts off what is longer. */
const SHOWN_CHARACTERS = 140;

function idle(changes: Partial<IIdle>): IIdle {
  return { keeps_left: 2, idle_after_min: 60, warn_after_min: 50, ...changes };
}

describe('the idle notification', () => {
  const warned = idle({
    idle_since_ms: 0,
    warned_ms: 50 * MINUTE,
    returns_ms: 60 * MINUTE
  });

  it('says since when and until when, on the server’s times alone', () => {
    const lease = makeLease({ state: 'warned', idle: warned });

    expect(idleNotice(lease, msg, 'nothing')).toMatchObject({
      text: 'Idle 50 min. GPU is returned when idle for 60 min. It can be kept 2 times. Otherwise its variables are lost.',
      keepsLeft: 2
    });
  });

  it('is one notification per warning, a new one after a keep', () => {
    const first = idleNotice(
      makeLease({ state: 'warned', idle: warned }),
      msg,
      'nothing'
    );
    const later = idle({ ...warned, returns_ms: 90 * MINUTE });
    const second = idleNotice(
      makeLease({ state: 'warned', idle: later }),
      msg,
      'nothing'
    );

    expect(first?.key).not.toBe(second?.key);
  });

  it('names what will happen and what is kept, as is true for this server', () => {
    const told = (changes: Partial<IIdle>, keeps: Keeps) =>
      idleNotice(
        makeLease({ state: 'warned', idle: { ...warned, ...changes } }),
        msg,
        keeps
      )?.text;

    expect(told({ on_idle: 'hibernate' }, 'kernels')).toContain(
      'Kernels that can be saved are kept.'
    );
    expect(told({ on_idle: 'hibernate' }, 'variables')).toContain(
      'Variables that can be stored are kept.'
    );
    expect(told({ on_idle: 'release' }, 'kernels')).toBe(
      'Idle 50 min. Restarts without its GPU when idle for 60 min. It can be kept 2 times. Kernels that can be saved are kept.'
    );
    expect(told({ on_idle: 'cull' }, 'kernels')).toContain(
      'Otherwise its variables are lost.'
    );
  });

  it('counts in seconds where limits are that short', () => {
    const short = idle({
      idle_after_min: 1,
      idle_since_ms: 0,
      warned_ms: 8000,
      returns_ms: 12_000
    });

    expect(
      idleNotice(makeLease({ state: 'warned', idle: short }), msg, 'nothing')
        ?.text
    ).toBe(
      'Idle 8 s. GPU is returned when idle for 12 s. It can be kept 2 times. Otherwise its variables are lost.'
    );
  });

  it('names no length of idleness where there is none yet', () => {
    const early = { ...warned, warned_ms: 40_000 };
    const text = (changes: Partial<IIdle>) =>
      idleNotice(
        makeLease({ state: 'warned', idle: { ...early, ...changes } }),
        msg,
        'nothing'
      )?.text;

    expect(text({})).toMatch(/^GPU is returned when idle for 60 min\./);
    expect(text({ on_idle: 'release' })).toMatch(/^Restarts without its GPU/);
  });

  it('names the limit as the line below the tile does', () => {
    const odd = idle({
      idle_after_min: 2,
      idle_after_s: 150,
      idle_since_ms: 0,
      warned_ms: 2 * MINUTE,
      returns_ms: 152_000
    });
    expect(idleLength(odd)).toEqual(['2 min 30 s', '']);
    expect(
      idleNotice(makeLease({ state: 'warned', idle: odd }), msg, 'nothing')
        ?.text
    ).toContain('Idle 2 min. GPU is returned when idle for 2 min 30 s.');
  });

  it('says that an admin asks, though the rule would take it as soon', () => {
    const asked = idle({
      idle_since_ms: 0,
      warned_ms: 9 * MINUTE,
      returns_ms: 19 * MINUTE,
      idle_after_min: 19,
      kept_until_ms: 40 * MINUTE,
      reclaimed: true
    });

    const said = (keeps_left: number, keeps: Keeps = 'nothing') => {
      const lease = { state: 'warned', idle: { ...asked, keeps_left } };
      return idleNotice(makeLease(lease), msg, keeps)?.text ?? '';
    };
    expect(said(2)).toMatch(
      /^Idle 9 min\. An admin asks for your GPU: it goes back at \d\d:19 unless you keep it or run something\. Otherwise its variables are lost\.$/
    );
    expect(said(0)).toMatch(/ at \d\d:19 unless you run something\. Otherwise/);
    asked.warned_ms = 120 * MINUTE;
    asked.returns_ms = 130 * MINUTE;
    for (const keeps of ['kernels', 'variables', 'nothing'] as const) {
      expect(said(2, keeps).length).toBeLessThanOrEqual(SHOWN_CHARACTERS);
    }
  });

  it('is not shown for an active notebook, nor without one', () => {
    expect(idleNotice(makeLease({ idle: warned }), msg, 'nothing')).toBeNull();
    expect(idleNotice(null, msg, 'nothing')).toBeNull();
  });
});

describe('the line of the tile', () => {
  it.each([
    [idle({}), 'Active · returned after 60 idle min'],
    [idle({ idle_after_s: 630 }), 'Active · returned after 10 min 30 s idle'],
    [idle({ idle_after_s: 90 }), 'Active · returned after 90 idle s'],
    [
      idle({ idle_since_ms: 45 * MINUTE }),
      'Idle 7 min · returned after 60 idle min'
    ],
    [
      idle({ idle_since_ms: 51.5 * MINUTE }),
      'Active · returned after 60 idle min'
    ],
    [
      idle({ idle_since_ms: 0, returns_ms: 60 * MINUTE }),
      'Idle 52 min · GPU is returned in 8 min'
    ]
  ])('%#', (state, text) => {
    expect(idleLine(state, 52 * MINUTE, msg)).toBe(text);
  });

  it('says until when the GPU is kept', () => {
    const kept = idle({ idle_since_ms: 0, kept_until_ms: 70 * MINUTE });

    expect(idleLine(kept, 52 * MINUTE, msg)).toMatch(/^Kept until \d\d:\d\d$/);
  });

  it.each([
    [idle({ kept_until_ms: 82 * MINUTE }), /^Active/],
    [idle({ idle_since_ms: 45 * MINUTE, kept_until_ms: 82 * MINUTE }), /^Idle/],
    [idle({ idle_since_ms: -20 * MINUTE, kept_until_ms: 50 * MINUTE }), /^Idle/]
  ])(
    'says nothing of keeping that gives no more than the rule: %#',
    (state, text) => {
      expect(idleLine(state, 52 * MINUTE, msg)).toMatch(text);
    }
  );
});
