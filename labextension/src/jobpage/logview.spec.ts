import { describe, expect, it } from 'vitest';

import { FollowedJob } from '../model/followed';
import { LogBuffer } from '../model/log';
import { makeJob, msg } from '../testing/make';
import { ServerMessage } from '../server/types';
import { syncLines, textOf } from './logview';
import { jobMessages } from './messages';
import { leadOf } from '../trainform/quotaline';

function texts(node: HTMLElement): string[] {
  return Array.from(node.children, row => row.textContent ?? '');
}

describe('rows of the log', () => {
  it('follow the buffer at both ends and keep the rows in between', () => {
    const log = new LogBuffer(3);
    const node = document.createElement('pre');
    log.append(1, ['a', 'b'], false, () => 'attempt 1');
    syncLines(node, log.lines);
    const kept = node.lastElementChild;
    log.append(1, ['c'], false, () => '');
    syncLines(node, log.lines);

    expect(texts(node)).toEqual(['a', 'b', 'c']);
    expect(node.children[1]).toBe(kept);
  });

  it('are text, whatever a job prints', () => {
    const log = new LogBuffer();
    const node = document.createElement('pre');
    log.append(1, ['<img src=x onerror=alert(1)>'], false, () => 'attempt 1');
    syncLines(node, log.lines);

    expect(node.querySelector('img')).toBeNull();
    expect(texts(node)[1]).toBe('<img src=x onerror=alert(1)>');
  });

  it('are emptied with the buffer', () => {
    const log = new LogBuffer();
    const node = document.createElement('pre');
    log.append(1, ['a'], false, () => 'attempt 1');
    syncLines(node, log.lines);
    log.clear();
    syncLines(node, log.lines);

    expect(node.children).toHaveLength(0);
  });
});

describe('the logs of several workers in one', () => {
  const sent: unknown[] = [];
  const parent = {
    send: (message: unknown) => sent.push(message) > 0,
    release: () => undefined,
    attemptLine: () => 'attempt 1'
  };
  const failed = makeJob({ state: 'failed', workers: 2 });
  const piece = (rank: number, count: number, end = true): ServerMessage => ({
    type: 'log',
    job: failed.id,
    attempt: 1,
    rank,
    lines: Array.from({ length: count }, (_, n) => `line ${n}`),
    end
  });
  const shown = (job: FollowedJob) =>
    job.log.lines.map(line => textOf(line, jobMessages(msg)));

  it('are what a failed job begins with, each folded to its last lines', () => {
    const job = new FollowedJob(failed.id, parent, failed);
    job.handle(piece(0, 30));
    expect(job.log.ended).toBe(false);
    job.handle(piece(1, 1));

    expect(sent.at(-1)).toMatchObject({ type: 'follow', rank: null });
    expect(shown(job).slice(0, 3)).toEqual([
      'attempt 1',
      '0 │ … 22 lines',
      '0 │ line 22'
    ]);
    expect(shown(job).at(-1)).toBe('1 │ line 0');
    expect(job.log.ended).toBe(true);
  });

  it('give way to one worker, whole and without its number', () => {
    const job = new FollowedJob(failed.id, parent, failed);
    job.follow(1);
    job.handle(piece(0, 30));
    job.handle(piece(1, 30));

    expect(shown(job)).toHaveLength(31);
    expect(shown(job)[1]).toBe('line 0');
  });

  it('are not begun with where nothing failed, or there is one', () => {
    const rank = (changes: object) => {
      const job = new FollowedJob(
        'j',
        parent,
        makeJob({ workers: 2, ...changes })
      );
      const first = job.rank;
      job.dispose();
      return first;
    };
    expect(rank({})).toBe(0);
    expect(rank({ state: 'failed', workers: 1 })).toBe(0);
    expect(rank({ state: 'failed', workers: 17 })).toBe(0);
  });
});

describe('the quota line', () => {
  it('sets a short verdict apart', () => {
    expect(leadOf('Borrowed. All are in use.')).toEqual([
      'Borrowed.',
      'All are in use.'
    ]);
    expect(leadOf('This is guaranteed and starts at once.')).toEqual([
      '',
      'This is guaranteed and starts at once.'
    ]);
  });
});
