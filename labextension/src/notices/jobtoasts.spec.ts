import { Notification } from '@jupyterlab/apputils';
import { CommandRegistry } from '@lumino/commands';
import { afterEach, expect, it } from 'vitest';

import { CommandIDs } from '../lab/ids';
import { Model } from '../model/model';
import type { IJob } from '../server/types';
import { TrainModel } from '../submission/train';
import { makeAttempt, makeJob, msg } from '../testing/make';
import { fakeApi, FakeSocket, HELLO } from '../testing/sockets';
import { JobToasts } from './jobtoasts';

const ME = HELLO.whoami?.name ?? '';

afterEach(() => {
  Notification.manager.dismiss();
});

function toasts(
  jobs: IJob[],
  { tellsJobs = true, commands = new CommandRegistry() } = {}
): JobToasts {
  const api = fakeApi(() => new Response('{"pools":[],"now_ms":0}'));
  const model = new Model(api, String);
  api.connect();
  FakeSocket.last.open();
  FakeSocket.last.say(HELLO);
  FakeSocket.last.say({ type: 'jobs', jobs });
  const train = new TrainModel(api, () => true);
  return new JobToasts({ model, msg, commands, train, tellsJobs });
}

function child(number: number, kind = 'map', fields: Partial<IJob> = {}): IJob {
  return makeJob({
    id: `job-${number}`,
    owner: ME,
    part_of: { id: 'parent', kind, name: 'seeds-1', number },
    ...fields
  });
}

const event = (kind: string, fields = {}) => ({
  number: 1,
  at_ms: 0,
  kind,
  by: 'scheduler',
  text: `It ${kind}.`,
  ...fields
});

const told = () =>
  Notification.manager.notifications.map(each => each.message).reverse();

it.each(['sweep', 'map', 'pipeline'])(
  'tells of a %s when it begins, when its first job fails and when it is over',
  kind => {
    const jobs = Array.from({ length: 200 }, (_, one) => child(one, kind));
    const tell = toasts(jobs);
    const data = { owner: ME, ref: 'parent', failed: 2 };

    tell.onEvent(
      event(kind === 'pipeline' ? 'pipeline-run' : `${kind}-started`, { data })
    );
    for (const { id } of jobs) {
      for (const change of ['started', 'evicted', 'succeeded']) {
        tell.onEvent(event(change, { workload_id: id }));
      }
    }
    tell.onEvent(event('failed', { workload_id: 'job-7' }));
    tell.onEvent(event('failed', { workload_id: 'job-8' }));
    tell.onEvent(event(`${kind}-over`, { data }));

    expect(told()).toEqual([
      kind === 'pipeline' ? 'It pipeline-run.' : `It ${kind}-started.`,
      'It failed.',
      `It ${kind}-over.`
    ]);
    expect(Notification.manager.notifications[0]?.type).toBe('warning');
  }
);

it('takes a failure that stood there before for the first', () => {
  const tell = toasts([child(1, 'sweep', { state: 'failed' }), child(2)]);

  tell.onEvent(event('failed', { workload_id: 'job-2' }));

  expect(told()).toEqual([]);
});

it('tells of each run of a schedule, and of nobody else’s sweep', () => {
  const tell = toasts([child(1, 'schedule')]);

  tell.onEvent(event('started', { workload_id: 'job-1' }));
  tell.onEvent(event('sweep-over', { data: { owner: 'somebody' } }));

  expect(told()).toEqual(['It started.']);
});

it('tells of looks at data that they failed, once, and nothing else', () => {
  const tell = toasts([child(1, 'look'), child(2, 'look')]);

  for (const change of ['started', 'succeeded', 'failed']) {
    for (const workload_id of ['job-1', 'job-2']) {
      tell.onEvent(event(change, { workload_id }));
    }
  }

  expect(told()).toEqual(['It failed.']);
});

it('announces no stop of one of many', () => {
  const stop = {
    why: 'reclaim',
    text: 'for nlp (its guarantee)',
    announced_ms: 0,
    term_ms: 30_000,
    kill_ms: 60_000
  };
  const attempts = [makeAttempt({ stop })];
  toasts([child(1, 'sweep', { attempts })]).onJobs();
  expect(told()).toEqual([]);

  toasts([child(1, 'schedule', { attempts })]).onJobs();
  expect(told()).toHaveLength(1);
});

it.each([
  ['sweep-over', CommandIDs.sweeps, '0196'],
  ['pipeline-over', CommandIDs.pipelines, 'ann/assembly-1']
])('opens the page of what is over: %s', (kind, command, ref) => {
  const commands = new CommandRegistry();
  const opened: unknown[] = [];
  commands.addCommand(command, {
    describedBy: { args: { type: 'object', properties: {} } },
    execute: ({ wanted }) => opened.push(wanted)
  });
  const tell = toasts([], { commands });

  tell.onEvent(event(kind, { data: { owner: ME, ref } }));

  const [shown] = Notification.manager.notifications;
  expect(shown?.type).toBe('success');
  shown?.options.actions?.[0]?.callback(new MouseEvent('click'));
  expect(opened).toEqual([ref]);
});

it.each([
  [{}, 'success'],
  [{ stopped: true }, 'info'],
  [{ stopped: true, failed: 1 }, 'warning']
])('tells of an end as it was: %o', (data, tone) => {
  const text = 'sweep digits-sweep-3 is over: It was stopped.';
  toasts([]).onEvent(
    event('sweep-over', { text, data: { owner: ME, ...data } })
  );

  const [shown] = Notification.manager.notifications;
  expect(shown?.message).toBe('Sweep digits-sweep-3 is over: It was stopped.');
  expect(shown?.type).toBe(tone);
});

it('says nothing where people want no word of jobs', () => {
  const tell = toasts([], { tellsJobs: false });

  tell.onEvent(event('sweep-over', { data: { owner: ME } }));

  expect(told()).toEqual([]);
});
