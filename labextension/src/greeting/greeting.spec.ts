import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import { Signal } from '@lumino/signaling';
import { expect, it } from 'vitest';

import { HELLO } from '../testing/sockets';
import { makeJob, makeLease, msg } from '../testing/make';
import { Seen } from '../model/greeted';
import { tipNow } from './tips';

/** Settings that lie on the server. */
function stored(values: string[]) {
  const written: unknown[] = [];
  const settings = {
    changed: new Signal({}),
    get: () => ({ composite: values }),
    set: (_: string, value: unknown) => {
      written.push(value);
      return Promise.resolve();
    }
  };
  return {
    written,
    settings: settings as unknown as ISettingRegistry.ISettings
  };
}

it('keeps what was closed before when something more is closed', () => {
  const { settings, written } = stored(['welcome']);
  const seen = new Seen();
  seen.take(settings);
  seen.add('idle');
  seen.add('idle');

  expect(written).toEqual([['welcome', 'idle']]);
  expect([seen.has('welcome'), seen.has('idle'), seen.has('x')]).toEqual([
    true,
    true,
    false
  ]);
});

it('knows nothing before the settings came', () => {
  expect(new Seen().isKnown).toBe(false);
});

const tip = (
  model: Partial<Parameters<typeof tipNow>[0]>,
  seen: string[] = []
) =>
  tipNow(
    {
      connection: 'ok',
      jobs: [],
      lease: null,
      whoami: HELLO.whoami ?? null,
      ...model
    },
    id => seen.includes(id),
    msg
  )?.id;

it('shows one tip at a time, and none again', () => {
  expect(tip({})).toBe('first-job');
  expect(tip({}, ['first-job'])).toBeUndefined();
  expect(tip({ jobs: [makeJob()] })).toBe('job-goes-on');
  expect(tip({ jobs: [makeJob({ state: 'failed' })] })).toBeUndefined();
});

it('offers the first job also where team-mates have jobs', () => {
  expect(tip({ jobs: [makeJob({ owner: 'bob' })] })).toBe('first-job');
});

it('gives the room to Submit once a file is chosen', () => {
  const idle = { idle_after_min: 60, warn_after_min: 50, keeps_left: 2 };
  const lease = makeLease({ state: 'active', idle });
  const known = { connection: 'ok', jobs: [], lease, whoami: null };
  expect(tipNow(known as never, () => false, msg, true)).toBeNull();
});

it('gives no tip while nothing is known of jobs', () => {
  expect(tip({ jobs: null })).toBeUndefined();
  expect(tip({ connection: 'lost' })).toBeUndefined();
});

it('does not promise a warning zero minutes before', () => {
  const idle = { idle_after_min: 1, warn_after_min: 1, keeps_left: 2 };
  const lease = makeLease({ state: 'active', idle });
  const shown = tipNow(
    { connection: 'ok', jobs: [], lease } as never,
    id => id === 'first-job',
    msg
  );
  expect(shown?.text).toContain('you are told before');
  expect(shown?.text).not.toContain('0 min');
});

it('says limits to the second where minutes would say less', () => {
  const idle = {
    idle_after_min: 1,
    warn_after_min: 1,
    idle_after_s: 90,
    warn_after_s: 60,
    keeps_left: 2
  };
  const lease = makeLease({ state: 'active', idle });
  const shown = tipNow(
    { connection: 'ok', jobs: [], lease } as never,
    id => id === 'first-job',
    msg
  );
  expect(shown?.text).toContain('After 90 s');
  expect(shown?.text).toContain('told 30 s before');
});
