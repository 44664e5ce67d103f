import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { describe, expect, it } from 'vitest';

import type { ICellRun } from './cellruns';
import {
  FirstWords,
  FollowedRun,
  follows,
  joined,
  Listener,
  refill
} from './cellrun';
import { keepingQuestions, toShow } from './lateoutputs';

type Heard = KernelMessage.IIOPubMessage;

const RUN: ICellRun = {
  id: 'r1',
  cell_id: 'c1',
  code: 'train()',
  session: 'another page',
  is_unseen: false,
  state: 'running',
  execution_count: 4,
  messages: [heard('m1', 'stream', { text: 'a' })],
  recent: ['m1']
};

function heard(
  msg_id: string,
  msg_type: string,
  content: object,
  request = 'r1'
): Heard {
  return {
    header: { msg_id, msg_type },
    parent_header: { msg_id: request },
    content,
    metadata: {}
  } as unknown as Heard;
}

class FakeKernel {
  readonly iopubMessage = new Signal<this, Heard>(this);
  readonly connectionStatusChanged = new Signal<this, string>(this);
  connectionStatus = 'connecting';
  isDisposed = false;

  connect(): void {
    this.connectionStatus = 'connected';
    this.connectionStatusChanged.emit('connected');
  }

  get connection(): Kernel.IKernelConnection {
    return this as unknown as Kernel.IKernelConnection;
  }
}

function follow(run: ICellRun, kernel: FakeKernel, since: Heard[] = []) {
  const shown: string[] = [];
  const ends: (number | null)[] = [];
  const future = new FollowedRun(run, kernel.connection, count => {
    ends.push(count);
  });
  future.onIOPub = message => {
    if (message.header.msg_type === 'stream') {
      shown.push((message as KernelMessage.IStreamMsg).content.text);
    }
  };
  future.begin(since);
  return { shown, ends, future };
}

describe('a cell that another page has begun', () => {
  it('shows what came before, and what comes, once', () => {
    const kernel = new FakeKernel();
    const listener = new Listener(kernel.connection);
    kernel.iopubMessage.emit(heard('m1', 'stream', { text: 'a' }));
    kernel.iopubMessage.emit(heard('m2', 'stream', { text: 'b' }));
    kernel.iopubMessage.emit(heard('x', 'stream', { text: 'x' }, 'other'));

    const { shown, ends } = follow(RUN, kernel, listener.after(RUN));
    listener.stop();
    kernel.iopubMessage.emit(heard('m3', 'stream', { text: 'c' }));
    kernel.iopubMessage.emit(heard('m1', 'stream', { text: 'a' }));
    expect(ends).toEqual([]);
    kernel.iopubMessage.emit(
      heard('m4', 'status', { execution_state: 'idle' })
    );
    kernel.iopubMessage.emit(heard('m5', 'stream', { text: 'd' }));

    expect(shown).toEqual(['a', 'b', 'c']);
    expect(ends).toEqual([4]);
  });

  it('is asked for once all that its kernel says is heard', async () => {
    const kernel = new FakeKernel();
    const listener = new Listener(kernel.connection, 1e6);
    let hears = false;
    const waited = listener.hears().then(() => {
      hears = true;
    });
    kernel.connect();
    await Promise.resolve();
    expect(hears).toBe(false);
    await Promise.resolve();
    kernel.iopubMessage.emit(heard('m1', 'stream', { text: 'a' }));
    await waited;

    const silent = new Listener(kernel.connection, 0);
    await silent.hears();
  });

  it('is asked for again while the server is behind what the page has heard', async () => {
    const kernel = new FakeKernel();
    const listener = new Listener(kernel.connection);
    for (const name of ['m3', 'm4', 'm5']) {
      kernel.iopubMessage.emit(heard(name, 'stream', { text: name }));
    }
    const kept = [['m1'], ['m1', 'm2'], ['m1', 'm2', 'm3', 'm4']];
    const answers = kept.map(recent => ({
      ...RUN,
      recent,
      messages: [heard(recent.at(-1) ?? '', 'stream', { text: recent.join() })]
    }));

    const [run = RUN] = await joined(
      listener,
      () => Promise.resolve([answers.shift() ?? RUN]),
      () => Promise.resolve()
    );

    const { shown } = follow(run, kernel, listener.after(run));
    expect(shown).toEqual(['m1,m2,m3,m4', 'm5']);
  });

  it('is not asked for without an end where the server stays behind', async () => {
    const kernel = new FakeKernel();
    const listener = new Listener(kernel.connection);
    kernel.iopubMessage.emit(heard('m9', 'stream', { text: 'i' }));

    const runs = await joined(
      listener,
      () => Promise.resolve([RUN]),
      () => Promise.resolve()
    );

    expect(runs).toEqual([RUN]);
  });

  it('is not shown twice where it says more than the server names', () => {
    const kernel = new FakeKernel();
    const listener = new Listener(kernel.connection);
    for (const name of ['m1', 'm2', 'm3', 'm4']) {
      kernel.iopubMessage.emit(heard(name, 'stream', { text: name }));
    }

    const after = listener.after({ ...RUN, recent: ['m3'] });

    expect(after.map(each => each.header.msg_id)).toEqual(['m4']);
  });

  it('tells by its first word whether something was missed before it', () => {
    const kernel = new FakeKernel();
    const words: Heard[] = [];
    new FirstWords().of(kernel.connection, RUN, word => words.push(word));
    kernel.iopubMessage.emit(heard('x', 'stream', { text: 'x' }, 'other'));
    kernel.iopubMessage.emit(heard('m4', 'stream', { text: 'd' }));
    kernel.iopubMessage.emit(heard('m5', 'stream', { text: 'e' }));
    expect(words).toHaveLength(1);
    const [word = heard('', 'stream', {})] = words;

    const now = (recent: string[]) => ({ ...RUN, recent });
    expect(follows(word, RUN, now(['m1', 'm4', 'm5']))).toBe(true);
    expect(follows(word, now([]), now(['m4']))).toBe(true);
    expect(follows(word, RUN, now(['m1', 'm2', 'm3', 'm4']))).toBe(false);
    expect(follows(word, RUN, now(['m1']))).toBe(false);
    expect(follows(word, RUN, undefined)).toBe(false);
  });

  it('asks once about the first word, however often it was looked at', () => {
    const kernel = new FakeKernel();
    const firsts = new FirstWords();
    const told: number[] = [];
    for (const look of [1, 2, 3]) {
      firsts.of(kernel.connection, RUN, () => told.push(look));
    }
    const other = { ...RUN, id: 'r2' };
    firsts.of(kernel.connection, other, () => told.push(4));

    kernel.iopubMessage.emit(heard('m4', 'stream', { text: 'd' }));
    expect(told).toEqual([3]);
    kernel.iopubMessage.emit(heard('m5', 'stream', { text: 'e' }, 'r2'));
    expect(told).toEqual([3, 4]);
  });

  it.each([
    [
      'its kernel has started anew',
      (kernel: FakeKernel) => {
        kernel.iopubMessage.emit(
          heard('m4', 'status', { execution_state: 'starting' }, 'start')
        );
      }
    ],
    [
      'its notebook is closed',
      (_: FakeKernel, firsts: FirstWords) => {
        firsts.dispose();
      }
    ]
  ])('waits for no first word once %s', (_, happens) => {
    const kernel = new FakeKernel();
    const firsts = new FirstWords();
    const told: Heard[] = [];
    firsts.of(kernel.connection, RUN, word => told.push(word));

    happens(kernel, firsts);
    kernel.iopubMessage.emit(heard('m5', 'stream', { text: 'e' }));

    expect(told).toEqual([]);
  });

  it('has the number that it is given later', () => {
    const kernel = new FakeKernel();
    const { ends } = follow({ ...RUN, execution_count: null }, kernel);
    kernel.iopubMessage.emit(
      heard('m2', 'execute_input', { execution_count: 9 })
    );
    kernel.iopubMessage.emit(
      heard('m3', 'status', { execution_state: 'idle' })
    );

    expect(ends).toEqual([9]);
  });

  it('is over with its kernel, and shown whole where it was over before', () => {
    const kernel = new FakeKernel();
    const running = follow(RUN, kernel);
    kernel.iopubMessage.emit(
      heard('m2', 'status', { execution_state: 'starting' }, 'none')
    );
    expect(running.ends).toEqual([4]);

    const done = follow({ ...RUN, state: 'ended' }, kernel);
    expect([done.shown, done.ends]).toEqual([['a'], [4]]);
  });

  it('is no more followed where it is run anew', () => {
    const kernel = new FakeKernel();
    const { shown, ends, future } = follow(RUN, kernel);
    future.dispose();
    kernel.iopubMessage.emit(heard('m2', 'stream', { text: 'b' }));

    expect([shown, ends]).toEqual([['a'], []]);
  });
});

it('is shown in the cell that stands there as it was run, by other pages than its own', () => {
  const cell = (id: string, source: string) => ({
    model: { id, sharedModel: { getSource: () => source } }
  });
  const cells = [cell('c1', 'train()'), cell('c2', 'changed()')];
  const runs = [
    RUN,
    { ...RUN, session: 'mine' },
    { ...RUN, cell_id: 'c2' },
    { ...RUN, cell_id: 'gone' }
  ];

  expect(toShow(runs, cells, 'mine')).toEqual([[RUN, cells[0]]]);
  const missed = { ...RUN, session: 'mine', is_unseen: true };
  expect(toShow([missed], cells, 'mine')).toEqual([[missed, cells[0]]]);
});

it('fills what this page ran itself and missed, and shows nothing twice', () => {
  const shown: string[] = [];
  let isNew: (message: Heard) => boolean = () => true;
  const own = {
    onIOPub: (message: Heard) => {
      shown.push(message.header.msg_id);
    },
    registerMessageHook: (hook: (message: Heard) => boolean) => {
      isNew = hook;
    }
  };
  const since = [heard('m2', 'stream', { text: 'b' })];

  refill(own, RUN, since);

  expect(shown).toHaveLength(2);
  expect(isNew(heard('m1', 'stream', { text: 'a' }))).toBe(false);
  expect(isNew(heard('m2', 'stream', { text: 'b' }))).toBe(false);
  expect(isNew(heard('m3', 'stream', { text: 'c' }))).toBe(true);
});

describe('keepingQuestions', () => {
  it('leaves the box in which a cell asks below what is shown anew', () => {
    const shown: object[] = [];
    const item = (...classes: string[]) => ({
      hasClass: (name: string) => classes.includes(name),
      set parent(_: null) {
        shown.splice(shown.indexOf(this), 1);
      }
    });
    const text = item('jp-OutputArea-child');
    const box = item('jp-OutputArea-child', 'jp-OutputArea-stdin-item');
    shown.push(text, box);
    const area = {
      widgets: shown,
      layout: { addWidget: (each: object) => shown.push(each) }
    } as unknown as Parameters<typeof keepingQuestions>[0];

    keepingQuestions(area, () => {
      expect(shown).toEqual([text]);
      shown.splice(0, shown.length, item());
    });

    expect(shown).toHaveLength(2);
    expect(shown[1]).toBe(box);
  });
});
