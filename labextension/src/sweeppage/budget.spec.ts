/** What is added to a budget: something, or a sentence says that it was nothing. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import type { ISweep } from '../server/sweeps';
import { msg } from '../testing/make';
import { askForMore } from './budget';
import { sweepMessages } from './messages';

// Lab's widgets ask for it, and the tests' browser has none.
beforeEach(() => {
  vi.stubGlobal('requestIdleCallback', (run: () => void) => setTimeout(run));
});

afterEach(() => {
  vi.unstubAllGlobals();
  document.body.replaceChildren();
});

const words = sweepMessages(msg);
const SWEEP = { name: 'search-1', budget_milli_gpu_s: null } as ISweep;

async function dialog(): Promise<HTMLElement> {
  await new Promise(resolve => setTimeout(resolve));
  const found = document.querySelector<HTMLElement>('.jp-Dialog');
  if (!found) {
    throw new Error('No dialog is shown.');
  }
  return found;
}

async function add(trials: string): Promise<void> {
  const shown = await dialog();
  const input = shown.querySelector('input');
  if (input) {
    input.value = trials;
    input.dispatchEvent(new Event('input'));
  }
  shown.querySelector<HTMLElement>('.jp-mod-accept')?.click();
}

it('asks again, and says why, where nothing is added', async () => {
  const asked = askForMore(SWEEP, words);
  await add('0');
  const again = await dialog();
  expect(again.querySelector('[role=alert]')?.textContent).toBe(
    'Nothing was added. Name at least one trial, or cancel.'
  );
  await add('7');
  expect(await asked).toEqual({ trials: 7, gpu_hours: 0 });
});

it.each(['-5', '1.5', 'many', '10001'])(
  'says what is wrong with %s, and shows it again as it was typed',
  async trials => {
    const asked = askForMore(SWEEP, words);
    await add(trials);
    const again = await dialog();
    expect(again.querySelector('[role=alert]')?.textContent).toBe(
      'Nothing was added. Trials are a whole number up to 10,000.'
    );
    const input = again.querySelector('input');
    expect([input?.value, input?.getAttribute('aria-invalid')]).toEqual([
      trials,
      'true'
    ]);
    await add('7');
    expect(await asked).toEqual({ trials: 7, gpu_hours: 0 });
  }
);

it('adds nothing where that is called off', async () => {
  const asked = askForMore({ ...SWEEP, budget_milli_gpu_s: 3600 }, words);
  const shown = await dialog();
  expect(shown.querySelectorAll('input')).toHaveLength(2);
  shown.querySelector<HTMLElement>('.jp-mod-reject')?.click();
  expect(await asked).toBeNull();
  expect(words.addNothing({ ...SWEEP, budget_milli_gpu_s: 3600 })).toBe(
    'Nothing was added. Name trials or GPU-hours above 0, or cancel.'
  );
});

it('names who draws as the form does', () => {
  const named = (kind: string, sampler: string) =>
    words.sampler({ kind, sampler } as ISweep);
  expect(named('sweep', 'tpe')).toBe('TPE: learns from what was tried');
  expect(named('sweep', 'of-a-plugin')).toBe('of-a-plugin');
  expect(named('map', 'tpe')).toBe('a list');
});
