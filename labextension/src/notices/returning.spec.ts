import { describe, expect, it } from 'vitest';

import { cameBack } from './returning';

function saw(...answers: number[]): Promise<boolean> {
  const last = answers[answers.length - 1] ?? 0;
  return cameBack(
    () => Promise.resolve(answers.shift() ?? last),
    () => Promise.resolve()
  );
}

describe('a server that restarts', () => {
  it('is back once it answers after it was down', async () => {
    expect(await saw(200, 424, 424, 200)).toBe(true);
  });

  it('is back when it no longer knows this page', async () => {
    expect(await saw(200, 403)).toBe(true);
  });

  it('is not back while the old one still answers', async () => {
    expect(await saw(200)).toBe(false);
  });

  it('is given up where it stays away', async () => {
    expect(await saw(0)).toBe(false);
  });
});
