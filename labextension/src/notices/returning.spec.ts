import { describe, expect, it } from 'vitest';

import { cameBack } from './returning';

function serverThat(...answers: number[]) {
  const last = answers[answers.length - 1] ?? 0;
  const logins: number[] = [];
  const status = ({ logsIn = false } = {}) => {
    const answer = answers.shift() ?? last;
    if (logsIn) {
      logins.push(answer);
    }
    return Promise.resolve(answer);
  };
  return { logins, status };
}

function saw(...answers: number[]): Promise<boolean> {
  return cameBack(serverThat(...answers), () => Promise.resolve());
}

describe('a server that restarts', () => {
  it('is back once it answers after it was down', async () => {
    expect(await saw(200, 424, 424, 200)).toBe(true);
  });

  it('is back when it no longer knows this page', async () => {
    expect(await saw(200, 403)).toBe(true);
  });

  it('is logged in to once before its page loads anew', async () => {
    const server = serverThat(0, 403, 200);

    expect(await cameBack(server, () => Promise.resolve())).toBe(true);
    expect(server.logins).toEqual([200]);
  });

  it('is back also where a password is wanted', async () => {
    expect(await saw(0, 403, 403)).toBe(true);
  });

  it('is not back while the old one still answers', async () => {
    expect(await saw(200)).toBe(false);
  });

  it('is given up where it stays away', async () => {
    expect(await saw(0)).toBe(false);
  });
});
