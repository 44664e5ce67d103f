import { describe, expect, it } from 'vitest';

import {
  askedBy,
  beganWords,
  canCancel,
  canPause,
  canRunAgain,
  canRunFromHere,
  cancelWords,
  dot,
  hasRequest,
  jobRow,
  maySteer,
  pauseCosts,
  goesOnIn,
  sorted,
  startableWith,
  timeLeftMs,
  workersOf
} from './jobs';
import { makeAttempt, makeForecast, makeJob, msg } from '../testing/make';

const WAY = {
  way: 'checkpoint',
  text: 'goes on from step 5,430',
  stop_text:
    'Goes on from step 5,430; at most 40 s of work since then is repeated.',
  repeats_ms: 40_000
};

const progress = {
  step: 21,
  total_steps: 50,
  metrics: { epoch: 21, loss: 0.1312, accuracy: 0.969 },
  at_ms: 0
};
const request = { roles: [] };

it('says from where a job began that has saved nothing of its own', () => {
  const began = makeAttempt({ resumed_from_step: 17 });
  expect(beganWords(makeJob(), msg)).toBe('');
  expect(beganWords(makeJob({ attempts: [began] }), msg)).toBe(
    'began from step 17'
  );
});

it('counts the workers that run, not those that were asked', () => {
  const role = {
    name: 'worker',
    count: 2,
    milli_gpu: 1000,
    cpu_milli: 1000,
    memory_mib: 1024,
    command: ['true']
  };
  const attempts = [
    makeAttempt({ state: 'ended', workers: 4 }),
    makeAttempt({ workers: 3 })
  ];
  const job = makeJob({ workers: 2, request: { roles: [role] }, attempts });
  expect(job.attempts.map(each => workersOf(job, each))).toEqual([4, 3]);
  expect(workersOf(job, null)).toBe(2);
});

describe('a row of the list', () => {
  it('says how far a running job is and when it was saved', () => {
    const job = makeJob({
      hold_class: 'over-quota',
      progress,
      checkpoint: { step: 20, size_bytes: 1, at_ms: 0 },
      attempts: [makeAttempt()]
    });
    const row = jobRow(job, 40_000, msg);

    expect(row.state).toBe('running · 2 borrowed');
    expect(row.percent).toBe(42);
    expect(row.left).toBe('epoch 21 of 50 · loss 0.131');
    expect(row.right).toBe('saved 40 s ago');
  });

  it('counts steps where the job does not count epochs', () => {
    const steps = { ...progress, step: 5430, total_steps: null, metrics: {} };
    const row = jobRow(makeJob({ progress: steps }), 0, msg);

    expect(row.left).toBe('step 5,430');
    expect(row.percent).toBeNull();
  });

  it('says why a job waits, its place, and what would start now', () => {
    const job = makeJob({
      state: 'queued',
      milli_gpu: 4000,
      position: 2,
      reason: {
        code: 'gang',
        text: 'Needs 4 GPUs on one node; 3 are free.',
        startable_milli_gpu: 2000
      },
      request
    });
    const row = jobRow(job, 0, msg);

    expect(row.state).toBe('waiting · 4 GPUs');
    expect(row.sentence).toBe('Needs 4 GPUs on one node; 3 are free.');
    expect(row.left).toBe('2nd in line');
  });

  it('knows where the list left out what is long', () => {
    expect(hasRequest(makeJob({ request, request_lacks: ['env'] }))).toBe(
      false
    );
    expect(hasRequest(makeJob({ request }))).toBe(true);
  });

  it('says the likely start beside the place, and that it is unknown', () => {
    const queued = { state: 'queued', position: 2 };
    const likely = makeJob({ ...queued, forecast: makeForecast() });
    const unknown = makeForecast({ to_ms: null, unknown: 'history' });

    expect(jobRow(likely, 0, msg).left).toBe('2nd in line · likely 10–25 min');
    expect(jobRow(makeJob({ ...queued, forecast: unknown }), 0, msg).left).toBe(
      '2nd in line · start unknown'
    );
    expect(jobRow(makeJob({ ...queued, position: 1 }), 0, msg).left).toBe(
      '1st in line'
    );
  });

  it('says where a stopped job goes on, its place and its likely start', () => {
    const job = makeJob({
      state: 'queued',
      position: 1,
      attempts: [makeAttempt({ state: 'ended' })],
      progress: { ...progress, metrics: {}, step: 5500 },
      way_to_go_on: WAY,
      reason: { code: 'share', text: 'Needs 1 GPU; none is free.' },
      forecast: makeForecast({ from_ms: 1_200_000, to_ms: 2_700_000 })
    });
    const row = jobRow(job, 0, msg);

    expect(row.sentence).toBe(
      'Goes on from step 5,430. Needs 1 GPU; none is free.'
    );
    expect(row.left).toBe('1st in line · likely 20–45 min');
  });

  it('offers the size that would start now to the owner of a waiting job', () => {
    const reason = { code: 'gang', text: '', startable_milli_gpu: 2000 };
    const job = makeJob({ state: 'queued', reason, request });
    const whoami = { name: 'ada', teams: [] };
    const ada = { whoami, connection: 'ok' } as const;
    const bob = { ...ada, whoami: { ...whoami, name: 'bob' } };

    expect(startableWith(job, ada)).toBe(2000);
    expect(startableWith(job, bob)).toBe(0);
    expect(startableWith({ ...job, request: null }, ada)).toBe(0);
    expect(startableWith(job, { ...ada, whoami: null })).toBe(0);
    expect(startableWith({ ...job, state: 'running' }, ada)).toBe(0);
    expect(startableWith(job, { ...ada, connection: 'lost' })).toBe(0);
  });

  it('names the job in which an ended one goes on', () => {
    const old = makeJob({ state: 'failed' });
    const request = { roles: [], resume_from: old.id };
    const next = makeJob({ id: 'j-2', request });
    const anothers = makeJob({ ...next, id: 'j-4', owner: 'eve' });

    expect(goesOnIn(old, [anothers, next, old])).toBe(next);
    expect(goesOnIn(old, [anothers])).toBeUndefined();
  });

  it('tells an announced stop with the time that is left', () => {
    const stop = {
      why: 'reclaim',
      text: 'for nlp (its guarantee)',
      announced_ms: 0,
      term_ms: 90_000,
      kill_ms: 120_000
    };
    const attempts = [makeAttempt({ stop })];

    expect(jobRow(makeJob({ attempts }), 0, msg).sentence).toBe(
      'Will be stopped in 90 s for nlp (its guarantee).'
    );
    expect(
      jobRow(makeJob({ attempts, way_to_go_on: WAY }), 0, msg).sentence
    ).toBe(
      'Will be stopped in 90 s for nlp (its guarantee). Goes on from step 5,430.'
    );
  });

  it('says of a stop for others that it goes on, once its notice is over', () => {
    const stop = {
      why: 'reclaim',
      text: 'for nlp (its guarantee)',
      announced_ms: 0,
      term_ms: 90_000,
      kill_ms: 120_000
    };
    const job = makeJob({ attempts: [makeAttempt({ stop })] });

    expect(jobRow(job, 89_999, msg).sentence).toContain('Will be stopped');
    expect(jobRow(job, 90_000, msg).sentence).toBe(
      'Is being stopped, in 30 s at the latest: for nlp (its guarantee).'
    );
  });

  it('names the cause of a stop that is for nobody else', () => {
    const stop = {
      why: 'pause',
      text: 'paused by alice',
      announced_ms: 0,
      term_ms: 0,
      kill_ms: 10_000
    };
    const said = (text: string) =>
      jobRow(
        makeJob({ attempts: [makeAttempt({ stop: { ...stop, text } })] }),
        0,
        msg
      ).sentence;

    expect(said('paused by alice')).toBe(
      'Is being stopped, in 10 s at the latest: paused by alice.'
    );
    expect(said('Not all workers ran within 5 min')).toBe(
      'Is being stopped, in 10 s at the latest: not all workers ran within 5 min.'
    );
  });

  it('says how a failed job ended', () => {
    const job = makeJob({ state: 'failed', ended_text: 'Exit code 1.' });

    expect(jobRow(job, 0, msg).sentence).toBe('Exit code 1.');
  });

  it('names the number that a finished job came to', () => {
    const metrics = { val_accuracy: 0.956, loss: 0.2 };
    const progress = { step: 50, metrics, at_ms: 0 };
    const job = makeJob({ state: 'succeeded', ended_ms: 1, progress });

    expect(jobRow(job, 0, msg).state).toMatch(/ · val_accuracy 95\.6 %$/);
  });
});

describe('order and actions', () => {
  it('lists running, then waiting by place, then newest finished', () => {
    const list = [
      makeJob({ id: 'old', state: 'succeeded', ended_ms: 1 }),
      makeJob({ id: 'second', state: 'queued', position: 2 }),
      makeJob({ id: 'new', state: 'failed', ended_ms: 2 }),
      makeJob({ id: 'first', state: 'queued', position: 1 }),
      makeJob({ id: 'runs' })
    ];

    expect(sorted(list).map(job => job.id)).toEqual([
      'runs',
      'first',
      'second',
      'new',
      'old'
    ]);
  });

  it('offers only what a state allows', () => {
    expect(canPause(makeJob({ state: 'pausing' }))).toBe(false);
    expect(canCancel(makeJob({ state: 'paused' }))).toBe(true);
    expect(canCancel(makeJob({ state: 'succeeded' }))).toBe(false);
    expect(dot(makeJob({ state: 'preempting' }))).toBe('stopping');
  });

  it('offers them to the owner, to leads of the team and to admins', () => {
    const job = makeJob({ owner: 'ada', team: 'vision' });
    const bob = { name: 'bob', teams: ['vision'] };

    expect(maySteer(job, { name: 'ada', teams: [] })).toBe(true);
    expect(maySteer(job, bob)).toBe(false);
    expect(maySteer(job, { ...bob, leads: ['nlp'] })).toBe(false);
    expect(maySteer(job, { ...bob, leads: ['vision'] })).toBe(true);
    expect(maySteer(job, { ...bob, admin: true })).toBe(true);
    expect(maySteer(makeJob({ owner: '' }), bob)).toBe(false);
    expect(maySteer(job, null)).toBe(false);
  });

  it('says of a cancel what it means where the job stands', () => {
    const attempts = [makeAttempt()];
    const ended = [makeAttempt({ state: 'ended' })];
    const checkpoint = { step: 1, size_bytes: 1, at_ms: 0 };
    const waits = { state: 'queued' };

    expect(cancelWords(makeJob({ attempts, checkpoint }), msg)).toEqual([
      'It ends for good. Its newest checkpoint is kept.',
      'Let it run'
    ]);
    expect(cancelWords(makeJob(waits), msg)).toEqual([
      'It leaves the line for good. Nothing of it has run yet.',
      'Keep it'
    ]);
    expect(cancelWords(makeJob({ ...waits, attempts: ended }), msg)[0]).toBe(
      'It leaves the line for good. It has saved no checkpoint.'
    );
  });

  it('says what a pause costs while something runs', () => {
    expect(pauseCosts(makeJob({ way_to_go_on: WAY }))).toBe(WAY.stop_text);
    const waits = { ...WAY, repeats_ms: null };
    expect(pauseCosts(makeJob({ way_to_go_on: waits }))).toBe('');
    expect(pauseCosts(makeJob())).toBe('');
  });

  it('estimates the time left from the pace of this attempt alone', () => {
    const attempts = [makeAttempt({ started_ms: 0, resumed_from_step: 16 })];
    const job = makeJob({ attempts, progress: { ...progress, at_ms: 50_000 } });

    expect(timeLeftMs(job, 50_000)).toBe(290_000);
    expect(timeLeftMs(makeJob({ progress }), 0)).toBeNull();
    // It may have gone on from files of its own.
    const unknown = [
      makeAttempt({ started_ms: 0, ended_ms: 10_000 }),
      makeAttempt({ number: 2, started_ms: 20_000 })
    ];
    expect(timeLeftMs(makeJob({ ...job, attempts: unknown }), 50_000)).toBe(
      null
    );
  });
});

describe('run again', () => {
  const whoami = { name: 'ada', teams: ['vision'] };
  const saved = { step: 16, size_bytes: 1, at_ms: 0 };
  const ended = makeJob({
    state: 'failed',
    checkpoint: saved,
    request: { roles: [] }
  });
  const here = (changes: object, jobs: (typeof ended)[] = []) =>
    canRunFromHere({ ...ended, ...changes }, { whoami, jobs });

  it('goes on from here for the owner of a job that is over and saved something', () => {
    expect(here({})).toBe(true);
    expect(here({ state: 'running' })).toBe(false);
    expect(here({ state: 'paused' })).toBe(false);
    expect(here({ checkpoint: null })).toBe(false);
    expect(here({ owner: 'bob' })).toBe(false);
  });

  it('goes on from here once', () => {
    const next = makeJob({
      id: 'j-2',
      request: { roles: [], resume_from: ended.id }
    });
    expect(here({}, [next])).toBe(false);
  });

  it('is offered only where the service would not refuse', () => {
    expect(canRunAgain(ended)).toBe(true);
    expect(canRunAgain({ ...ended, again_hindrance: 'Ask ann.' })).toBe(false);
    expect(here({ again_hindrance: 'Its files are gone.' })).toBe(false);
  });

  it("takes nothing of another's that means something else for its reader", () => {
    const request = {
      roles: [],
      secrets: { TOKEN: 'hub' },
      results_to: 'work'
    };
    const theirs = { ...ended, owner: 'bob', request };
    expect(askedBy(theirs, whoami).request).toEqual({
      roles: [],
      secrets: {},
      results_to: null
    });
    expect(askedBy({ ...theirs, owner: 'ada' }, whoami).request).toBe(request);
  });
});
