import { Notification } from '@jupyterlab/apputils';
import { CommandRegistry } from '@lumino/commands';
import { afterEach, expect, it, vi } from 'vitest';

import { CommandIDs } from '../lab/ids';
import { Model } from '../model/model';
import { Notices } from './notices';
import { makeAttempt, makeJob, makeLease, msg } from '../testing/make';
import { TrainModel } from '../submission/train';
import { fakeApi, FakeSocket, HELLO } from '../testing/sockets';

const idle = {
  idle_since_ms: 0,
  warned_ms: 3_000_000,
  returns_ms: 3_600_000,
  keeps_left: 2,
  idle_after_min: 60,
  warn_after_min: 50
};
const hello = { ...HELLO, lease: makeLease({ state: 'warned', idle }) };

afterEach(() => {
  Notification.manager.dismiss();
});

function notices(model: Model, commands = new CommandRegistry()): Notices {
  return new Notices(
    model,
    msg,
    commands,
    new TrainModel(model.api, () => true)
  );
}

function warn(commands: CommandRegistry, keepsLeft = 2): void {
  const api = fakeApi(() => new Response('{"pools":[],"now_ms":0}'));
  notices(new Model(api, String), commands);
  api.connect();
  FakeSocket.last.open();
  FakeSocket.last.say({
    ...HELLO,
    lease: makeLease({
      state: 'warned',
      idle: { ...idle, keeps_left: keepsLeft }
    })
  });
}

it.each([
  [true, ['Keep 30 min', 'Drop to CPU', 'Turn into job']],
  [false, ['Keep 30 min', 'Drop to CPU']]
])('offers to turn a notebook into a job where one is open', (open, labels) => {
  const commands = new CommandRegistry();
  commands.addCommand(CommandIDs.trainNotebook, {
    describedBy: { args: { type: 'object', properties: {} } },
    execute: () => undefined,
    isEnabled: () => open
  });
  warn(commands);

  const [shown] = Notification.manager.notifications;
  expect(shown?.options.actions?.map(each => each.label)).toEqual(labels);
});

it.each([
  [2, ['keep', 'turn'], false],
  [0, ['turn'], true]
])(
  'keeps the GPU, or else its warning, while a notebook is turned into a job: %i left',
  (keepsLeft, ran, stays) => {
    const commands = new CommandRegistry();
    const done: string[] = [];
    for (const [id, name] of [
      [CommandIDs.trainNotebook, 'turn'],
      [CommandIDs.keepGpu, 'keep']
    ] as const) {
      commands.addCommand(id, {
        describedBy: { args: { type: 'object', properties: {} } },
        execute: () => done.push(name)
      });
    }
    warn(commands, keepsLeft);

    const [shown] = Notification.manager.notifications;
    const click = new MouseEvent('click', { cancelable: true });
    const actions = shown?.options.actions ?? [];
    actions[actions.length - 1]?.callback(click);
    expect(done).toEqual(ran);
    expect(click.defaultPrevented).toBe(stays);
  }
);

it('takes the idle warning back when the server is gone, and brings it again', () => {
  const api = fakeApi(() => new Response('{"pools":[],"now_ms":0}'));
  const model = new Model(api, String);
  notices(model);
  api.connect();
  FakeSocket.last.open();
  FakeSocket.last.say(hello);
  expect(Notification.manager.count).toBe(1);

  FakeSocket.last.hangUp();
  expect(Notification.manager.count).toBe(0);

  api.connect();
  FakeSocket.last.open();
  FakeSocket.last.say(hello);
  expect(Notification.manager.count).toBe(1);
});

it('tells each of what happened at once', async () => {
  const api = fakeApi(() => new Response('{"pools":[],"now_ms":0}'));
  notices(new Model(api, String));
  api.connect();
  FakeSocket.last.open();
  FakeSocket.last.say(HELLO);
  const job = makeJob({ owner: HELLO.whoami?.name ?? '' });
  FakeSocket.last.say({ type: 'jobs', jobs: [job] });
  const event = (kind: string) => ({
    number: 1,
    at_ms: 0,
    kind,
    by: 'scheduler',
    text: `It ${kind}.`,
    workload_id: job.id
  });
  FakeSocket.last.say({
    type: 'events',
    events: [event('started'), event('succeeded')]
  });

  await vi.waitFor(() => {
    expect(
      Notification.manager.notifications.map(each => each.message)
    ).toEqual(expect.arrayContaining(['It started.', 'It succeeded.']));
  });

  FakeSocket.last.say({ type: 'jobs', jobs: [{ ...job, state: 'paused' }] });
  // That it runs is not said of a job that does not.
  await vi.waitFor(() => {
    expect(
      Notification.manager.notifications.map(each => each.message)
    ).toEqual(['It succeeded.']);
  });
});

it.each([
  [
    'goes on from step 5,430',
    'digits-7: Will be stopped at 00:00:30 for nlp (its guarantee). Goes on from step 5,430.'
  ],
  [
    'starts over, because it has saved no checkpoint; 12 min of work is lost, unless its script goes on from files of its own',
    'digits-7: Will be stopped at 00:00:30 for nlp (its guarantee). Its page says how it goes on.'
  ]
])(
  'says how a stopped job goes on in as many words as Lab shows: %s',
  async (text, told) => {
    const api = fakeApi(() => new Response('{"pools":[],"now_ms":0}'));
    notices(new Model(api, String));
    api.connect();
    FakeSocket.last.open();
    FakeSocket.last.say(HELLO);
    const stop = {
      why: 'reclaim',
      text: 'for nlp (its guarantee)',
      announced_ms: 0,
      term_ms: 30_000,
      kill_ms: 60_000
    };
    const job = makeJob({
      owner: HELLO.whoami?.name ?? '',
      attempts: [makeAttempt({ stop })],
      way_to_go_on: { way: 'start_over', text, stop_text: '' }
    });
    FakeSocket.last.say({ type: 'jobs', jobs: [job] });

    await vi.waitFor(() => {
      const [shown] = Notification.manager.notifications;
      expect(shown?.message.replace(/\d\d:\d\d:(?=\d\d)/, '00:00:')).toBe(told);
    });
  }
);
