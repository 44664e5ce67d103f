/** What happened: the segments, notes and marks of a job's time. */
import { describe, expect, it } from 'vitest';

import { jobMessages } from './messages';
import { timeline } from './timeline';
import { makeAttempt, makeJob, msg } from '../testing/make';

const jobMsg = jobMessages(msg);

describe('what happened', () => {
  const job = makeJob({
    attempts: [
      makeAttempt({
        hold_class: 'over-quota',
        reserved_ms: 240_000,
        started_ms: 240_000,
        ended_ms: 600_000,
        ended_text: 'stopped for nlp (its guarantee)'
      }),
      makeAttempt({
        id: 'a-2',
        number: 2,
        reserved_ms: 900_000,
        started_ms: 900_000
      })
    ]
  });

  it('shows waits and attempts to scale', () => {
    const { segments } = timeline(job, 1_200_000, jobMsg);

    expect(segments.map(each => [each.kind, each.label])).toEqual([
      ['waited', 'waited 4 min'],
      ['borrowed', 'attempt 1 · 6 min'],
      ['waited', 'waited 5 min'],
      ['running', 'attempt 2 · running']
    ]);
    expect(segments.reduce((sum, each) => sum + each.percent, 0)).toBe(100);
  });

  it.each(['succeeded', 'failed', 'cancelled'])(
    'draws the last attempt as the job ended: %s',
    state => {
      const ended = [makeAttempt({ state: 'ended', ended_ms: 60_000 })];
      const over = makeJob({ state, attempts: ended, ended_ms: 60_000 });
      const [segment] = timeline(over, 60_000, jobMsg).segments;

      expect(segment?.kind).toBe(state === 'succeeded' ? 'running' : state);
    }
  );

  it('says no more of the step at which it goes on than was seen', () => {
    const seen = (state: 'testing' | 'passed', step: number | null = 8) => {
      const again = makeAttempt({
        id: 'a-2',
        number: 2,
        reserved_ms: 900_000,
        started_ms: 900_000,
        resumed_from_step: 8,
        milli_gpu: 3000
      });
      const drill = { state, text: '', step };
      const attempts = [...job.attempts.slice(0, 1), again];
      const receipts = timeline(
        makeJob({ drill, attempts }),
        1_200_000,
        jobMsg
      ).receipts;
      return receipts.at(-1)?.text;
    };
    expect(seen('testing')).toBe(
      'attempt 2: began on 3 GPUs with what was saved at step 8'
    );
    expect(seen('passed')).toBe('attempt 2: resumed at step 8 on 3 GPUs');
    // It is being stopped to see whether it goes on after that.
    expect(seen('testing', null)).toBe(
      'attempt 2: resumed at step 8 on 3 GPUs'
    );
  });

  it('gives short lengths to the second, so that they add up', () => {
    const attempts = [
      makeAttempt({ started_ms: 0, ended_ms: 112_000 }),
      makeAttempt({
        id: 'a-2',
        number: 2,
        reserved_ms: 227_000,
        started_ms: 227_000,
        ended_ms: 336_000
      })
    ];
    const over = makeJob({ state: 'succeeded', attempts, ended_ms: 336_000 });

    expect(
      timeline(over, 336_000, jobMsg).segments.map(one => one.label)
    ).toEqual([
      'attempt 1 · 1 min 52 s',
      'waited 1 min 55 s',
      'attempt 2 · 1 min 49 s'
    ]);
  });

  it('tells the start of an attempt from the wait for it', () => {
    const attempts = [
      makeAttempt({ reserved_ms: 60_000, started_ms: 240_000 })
    ];
    const { segments } = timeline(makeJob({ attempts }), 300_000, jobMsg);

    expect(segments.map(each => [each.kind, each.label])).toEqual([
      ['waited', 'waited 1 min'],
      ['starting', 'started in 3 min'],
      ['running', 'attempt 1 · running']
    ]);
  });

  it('draws an attempt that starts at once from when it had its GPUs', () => {
    const attempts = [makeAttempt({ reserved_ms: 0, started_ms: 100 })];
    const { segments } = timeline(makeJob({ attempts }), 300_000, jobMsg);

    expect(segments).toMatchObject([{ kind: 'running', percent: 100 }]);
  });

  it.each([
    ['It finished', 'attempt 1: it finished'],
    ['Stopped for nlp', 'attempt 1: stopped for nlp'],
    ['GPU 3 is gone', 'attempt 1: GPU 3 is gone']
  ])('goes on after the colon: %s', (ended_text, said) => {
    const attempts = [makeAttempt({ ended_ms: 60_000, ended_text })];

    expect(
      timeline(makeJob({ attempts }), 60_000, jobMsg).receipts[0]?.text
    ).toBe(said);
  });

  it('tells each stop with its time', () => {
    expect(timeline(job, 1_200_000, jobMsg).receipts[0]?.text).toBe(
      'attempt 1: stopped for nlp (its guarantee)'
    );
  });

  it.each(['admitted', 'starting'])(
    'calls the wait of a job without an attempt yet its wait: %s',
    state => {
      const begins = makeJob({ state, attempts: [] });

      expect(
        timeline(begins, 76_000, jobMsg).segments.map(each => each.label)
      ).toEqual(['waited 1 min 16 s']);
    }
  );

  it('shows a job that has only waited', () => {
    const waiting = makeJob({ state: 'queued' });

    expect(timeline(waiting, 60_000, jobMsg).segments).toMatchObject([
      { kind: 'waited', percent: 100, label: 'waiting · 1 min' }
    ]);
  });

  it.each([
    [
      'that waited first and was paused then',
      makeJob({ state: 'paused', since_ms: 40_000 }),
      ['waited 40 s', 'paused 20 s']
    ],
    [
      'that is in line again after a pause',
      makeJob({
        state: 'queued',
        since_ms: 45_000,
        pauses: [{ from_ms: 40_000, to_ms: 45_000 }]
      }),
      ['waited 40 s', 'paused 5 s', 'waiting · 15 s']
    ],
    [
      'that was paused between two attempts',
      makeJob({
        pauses: [{ from_ms: 20_000, to_ms: 30_000 }],
        attempts: [
          makeAttempt({ started_ms: 0, ended_ms: 20_000 }),
          makeAttempt({
            id: 'a-2',
            number: 2,
            reserved_ms: 40_000,
            started_ms: 40_000
          })
        ]
      }),
      ['attempt 1 · 20 s', 'paused 10 s', 'waited 10 s', 'attempt 2 · running']
    ],
    [
      'that was cancelled while it waited',
      makeJob({ state: 'cancelled', ended_ms: 60_000 }),
      ['waited 1 min']
    ]
  ])('tells waiting from pausing of a job %s', (_, each, labels) => {
    const { segments } = timeline(each, 60_000, jobMsg);

    expect(segments.map(segment => segment.label)).toEqual(labels);
  });
});
