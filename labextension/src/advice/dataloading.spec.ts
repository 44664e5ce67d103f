/** What is said of a job's data loader, and what its buttons set. */
import { expect, it } from 'vitest';

import type { IDataAdvice } from '../server/plans';
import { msg } from '../testing/make';
import { dataView } from './dataloading';

const BOUND: IDataAdvice = {
  verdict: 'bound',
  attempt: 2,
  batches: 200,
  batch_ms: 160,
  wait_ms: 120,
  workers: 0,
  advised: { workers: 3, prefetch: 2 },
  low_ms: 40,
  high_ms: 44,
  hints: [],
  can_choose: true,
  text: ''
};
const MAY = { steer: true, runAgain: true };
const CHOSEN = {
  workers: 3,
  prefetch: 2,
  by: 'ada',
  at_ms: 1,
  in_force: false
};

it('says what is waited for, what would help, and from what', () => {
  const view = dataView(BOUND, MAY, msg);
  expect(view?.finding).toBe(
    'It waits for its data for 120 ms of 160 ms per batch (75 %). With 3 workers, 2 batches ahead, a batch likely takes 40 ms to 44 ms.'
  );
  expect(view?.source).toBe(
    'Timed over the newest 200 batches of attempt 2, in its first process.'
  );
  expect(view?.applies).toEqual({ workers: 3, prefetch: 2 });
  expect(view?.takesBack).toBe(false);
});

it('has a button only for who may steer a job that is not over', () => {
  expect(dataView(BOUND, { ...MAY, steer: false }, msg)?.applies).toBeNull();
  expect(dataView({ ...BOUND, can_choose: false }, MAY, msg)?.applies).toBe(
    null
  );
});

it('says what was chosen, takes it back, and offers it no second time', () => {
  const chosen = dataView({ ...BOUND, chosen: CHOSEN }, MAY, msg);
  expect(chosen?.chosen).toBe(
    'From its next attempt on: 3 workers, 2 batches ahead, as ada chose.'
  );
  expect([chosen?.applies, chosen?.takesBack]).toEqual([null, true]);
  const other = { ...CHOSEN, workers: 1, prefetch: 1, in_force: true };
  const changed = dataView({ ...BOUND, chosen: other }, MAY, msg);
  expect(changed?.chosen).toBe(
    'It runs with 1 worker, 1 batch ahead, as ada chose.'
  );
  expect(changed?.applies).toEqual({ workers: 3, prefetch: 2 });
});

it('says nothing where nothing was timed, and names no gain where none is known', () => {
  const unknown: IDataAdvice = { ...BOUND, verdict: 'unknown', advised: null };
  expect(dataView(unknown, MAY, msg)).toBeNull();
  expect(dataView({ ...unknown, chosen: CHOSEN }, MAY, msg)?.source).toBe('');
  const fine = dataView({ ...BOUND, verdict: 'fine', wait_ms: 1.25 }, MAY, msg);
  expect(fine?.finding).toBe(
    'It hardly waits for its data: 1.3 ms of 160 ms per batch.'
  );
  const busy = { ...BOUND, verdict: 'busy' as const, gpu_percent: 96 };
  expect(dataView(busy, MAY, msg)?.finding).toContain(
    'busy all the same (96 %)'
  );
});

it('words what is beside in the language of the page, and what is new as it came', () => {
  const hints = [
    { kind: 'cores', values: ['2', '3'], text: '' },
    { kind: 'node', values: ['2', '3'], text: '' },
    { kind: 'cache', values: ['4.7', '16.0'], text: '' },
    { kind: 'remote', values: ['nfs4'], text: '' },
    { kind: 'far', values: [], text: '' },
    { kind: 'stream', values: [], text: '' },
    { kind: 'loader', values: [], text: '' },
    { kind: 'keras', values: [], text: '' },
    { kind: 'keras_dataset', values: ['3'], text: '' },
    { kind: 'newer', values: [], text: 'Of a newer scheduler.' }
  ];
  const said = dataView({ ...BOUND, hints }, MAY, msg)?.hints ?? [];
  expect(said[0]).toContain('has 2 of the 3 cores');
  expect(said[1]).toContain('its node has no more');
  expect(said[2]).toContain('takes 4.7 GiB once it is loaded');
  expect(said[2]).toContain('16.0 GiB of memory, shared by its training');
  expect(said[3]).toContain('lie on nfs4');
  expect(said[8]).toContain('PyDataset(workers=3) it would wait less');
  expect(said.at(-1)).toBe('Of a newer scheduler.');
  expect(new Set(said).size).toBe(10);
});

it('offers of a job that is over another run with what would help', () => {
  const over = { ...BOUND, can_choose: false };
  const view = dataView(over, MAY, msg);
  expect([view?.applies, view?.runsAgain]).toEqual([null, over.advised]);
  expect(
    dataView(over, { ...MAY, runAgain: false }, msg)?.runsAgain
  ).toBeNull();
  expect(dataView(BOUND, MAY, msg)?.runsAgain).toBeNull();
});

it('does not promise a next attempt to a job that is over', () => {
  const over = { ...BOUND, can_choose: false, chosen: CHOSEN };
  expect(dataView(over, MAY, msg)?.chosen).toBe(
    'It was over before it ran with 3 workers, 2 batches ahead, as ada chose.'
  );
});
