import { afterEach, expect, it, vi } from 'vitest';

import { CurrentText } from './currenttext';

afterEach(() => {
  vi.useRealTimers();
});

it('says what is true now for as long as it is shown', async () => {
  vi.useFakeTimers();
  const ask = vi
    .fn<() => Promise<string>>()
    .mockResolvedValueOnce('44 s of work is lost')
    .mockRejectedValueOnce(new Error('away'))
    .mockResolvedValueOnce('');
  const shown = new CurrentText('40 s of work is lost', ask);
  expect(shown.node.textContent).toBe('40 s of work is lost');

  for (let look = 0; look < 3; look++) {
    await vi.advanceTimersByTimeAsync(2000);
    expect(shown.node.textContent).toBe('44 s of work is lost');
  }

  shown.dispose();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(ask).toHaveBeenCalledTimes(3);
});
