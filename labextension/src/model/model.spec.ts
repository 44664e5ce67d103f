import { describe, expect, it, vi } from 'vitest';

import { ServerClock } from '../server/clock';
import { Model } from './model';
import { makeJob, makeLease, makeSample, msg } from '../testing/make';
import { fakeApi, FakeSocket, HELLO } from '../testing/sockets';
import { statusText } from '../panel/status';

function connected(now = () => 0): Model {
  const api = fakeApi(() => new Response('{"pools":[],"now_ms":0}'));
  const model = new Model(api, number => `attempt ${number}`, undefined, now);
  api.connect();
  FakeSocket.last.open();
  return model;
}

describe('standing with the server', () => {
  it('is what the server says, and lost when it hangs up', () => {
    const model = connected();
    expect(model.connection).toBe('connecting');
    FakeSocket.last.say(HELLO);
    expect(model.connection).toBe('ok');
    FakeSocket.last.say({ ...HELLO, scheduler: 'unreachable' });
    expect(model.connection).toBe('unreachable');
    FakeSocket.last.hangUp();
    expect(model.connection).toBe('lost');
  });

  it('keeps what it knew, with its age', () => {
    let now = 0;
    const model = connected(() => now);
    FakeSocket.last.say(HELLO);
    FakeSocket.last.say({ type: 'jobs', jobs: [makeJob()] });
    expect(model.dataAgeMs).toBeNull();

    FakeSocket.last.say({ ...HELLO, scheduler: 'unreachable', lease: null });
    now = 40_000;

    expect(model.dataAgeMs).toBe(40_000);
    expect(model.jobs).toHaveLength(1);
    expect(model.whoami?.name).toBe('ada');
  });

  it('stands still at its data until that is kept up to date again', () => {
    let now = 1000;
    const api = fakeApi(() => new Response('{"pools":[],"now_ms":5000}'));
    const clock = new ServerClock(() => now);
    const model = new Model(api, String, clock, () => now);
    api.connect();
    FakeSocket.last.open();
    FakeSocket.last.say({ ...HELLO, now_ms: 5000 });
    now += 2000;
    expect(model.shownMs).toBe(7000);

    FakeSocket.last.hangUp();
    now += 45_000;
    expect(model.shownMs).toBe(7000);
    expect(msg.outOfReach(model.connection)).toBe(msg.connectionLost());

    api.connect();
    FakeSocket.last.open();
    FakeSocket.last.say({ ...HELLO, now_ms: 52_000 });
    expect(model.shownMs).toBe(52_000);
    expect(msg.outOfReach(model.connection)).toBeNull();
  });

  it('goes by the server’s clock', () => {
    const model = connected();
    FakeSocket.last.say({ ...HELLO, now_ms: Date.now() + 3_600_000 });

    expect(model.clock.now() - Date.now()).toBeGreaterThan(3_599_000);
  });
});

describe('leases and use', () => {
  it('knows that a lost server was stopped because it was idle', () => {
    const model = connected();
    const gone = (returns_ms: number) => {
      const idle = {
        idle_since_ms: 0,
        warned_ms: 1,
        returns_ms,
        keeps_left: 2,
        idle_after_min: 60,
        warn_after_min: 50
      };
      model.setLease(makeLease({ state: 'warned', idle }));
      return model.returnedAfterMs;
    };
    FakeSocket.last.say({ ...HELLO, now_ms: 3_600_000 });
    expect(gone(3_600_000)).toBeNull();

    FakeSocket.last.hangUp();

    expect(gone(3_600_000)).toBe(3_600_000);
    expect(gone(7_200_000)).toBeNull();
  });

  it('remembers why an admin stopped the server, once it is gone', () => {
    const model = connected();
    FakeSocket.last.say({ ...HELLO, lease: makeLease() });
    const stop = (workload_id: string, why: string, text: string) => {
      const about = { number: 1, at_ms: 0, kind: 'stop-announced', by: 'root' };
      const event = { ...about, text, workload_id, data: { why } };
      FakeSocket.last.say({ type: 'events', events: [event] });
    };
    const id = makeLease().id;
    stop(id, 'reclaimed', 'reclaimed by root: a demo at noon');
    stop(id, 'stopped', 'The server was stopped');
    stop('another', 'reclaimed', 'reclaimed by root: not this one');
    expect(model.stopped).toBeNull();

    vi.useFakeTimers();
    FakeSocket.last.hangUp();
    expect(model.stopped).toBe('reclaimed by root: a demo at noon');
    // It is not asked for ever whether it is back.
    for (let minutes = 0, seen = 1; minutes < 60; minutes++) {
      vi.advanceTimersByTime(60_000);
      if (FakeSocket.all.length > seen) {
        seen = FakeSocket.all.length;
        FakeSocket.last.hangUp();
      }
    }
    expect(FakeSocket.all.length).toBeLessThan(25);
    vi.useRealTimers();

    model.setLease({ ...makeLease(), id: 'anew' });
    expect(model.stopped).toBeNull();
  });

  it('starts a new line for another slice', () => {
    const model = connected();
    FakeSocket.last.say({ ...HELLO, lease: makeLease() });
    FakeSocket.last.say({
      type: 'usage',
      state: 'ok',
      samples: [makeSample(1)]
    });
    expect(statusText(model, msg)).toBe('GPU ½ 0.5/1.0 GiB');

    FakeSocket.last.say({ type: 'lease', lease: null });
    expect(model.usage.last).toBeNull();
    expect(statusText(model, msg)).toBeNull();
  });

  it('counts no GPU of who is parked', () => {
    const model = connected();
    const parked = makeLease({ slice: null, parked_ms: 1 });
    FakeSocket.last.say({ ...HELLO, lease: parked });
    FakeSocket.last.say({
      type: 'usage',
      state: 'ok',
      samples: [makeSample(1)]
    });

    expect(statusText(model, msg)).toBe('Parked');
  });

  it('says so when a slice has no readings', () => {
    const model = connected();
    FakeSocket.last.say({ ...HELLO, lease: makeLease() });
    FakeSocket.last.say({ type: 'usage', state: 'no-data', samples: [] });

    expect(statusText(model, msg)).toBe('GPU ½ no GPU data');
  });
});

describe('following a job', () => {
  it('asks again from the start after a reconnect', () => {
    const model = connected();
    const followed = model.follow('j-1');
    FakeSocket.last.say({
      type: 'log',
      job: 'j-1',
      attempt: 1,
      rank: 0,
      lines: ['a'],
      end: false
    });
    expect(followed.log.lines).toHaveLength(2);

    model.api.connect();
    FakeSocket.last.open();

    expect(followed.log.lines).toHaveLength(0);
    expect(FakeSocket.last.sent).toEqual([
      { type: 'follow', job: 'j-1', rank: 0 }
    ]);
  });

  it('drops lines of a rank that is no longer shown', () => {
    const model = connected();
    const followed = model.follow('j-1');
    followed.follow(1);
    const late = { attempt: 1, rank: 0, lines: ['late'], end: false };
    FakeSocket.last.say({ type: 'log', job: 'j-1', ...late });

    expect(followed.log.lines).toHaveLength(0);
  });

  it('ends the stream with the last looker only', () => {
    const model = connected();
    const first = model.follow('j-1');
    const second = model.follow('j-1');
    const unfollow = { type: 'unfollow', job: 'j-1' };
    first.dispose();
    expect(FakeSocket.last.sent).not.toContainEqual(unfollow);

    second.dispose();
    expect(FakeSocket.last.sent).toContainEqual(unfollow);
  });

  it('believe news that were faster than the answer', () => {
    const model = connected();
    const news = makeJob({ position: 1, since_ms: 5 });
    FakeSocket.last.say({ type: 'jobs', jobs: [news] });
    model.add(makeJob({ since_ms: 5 }));
    model.take(makeJob({ state: 'pausing', since_ms: 4 }));
    expect(model.jobs).toEqual([news]);
  });

  it('shows the answer of an action at once, in list and page', () => {
    const model = connected();
    FakeSocket.last.say({ type: 'jobs', jobs: [makeJob()] });
    const followed = model.follow('j-1');
    const changed = vi.fn();
    model.changed.connect((_, topic) => {
      changed(topic);
    });
    model.take(makeJob({ state: 'pausing' }));

    expect(model.jobs?.[0]?.state).toBe('pausing');
    expect(followed.job?.state).toBe('pausing');
    expect(changed).toHaveBeenCalledWith('jobs');
  });
});
