/** Notebooks of a tab whose server was stopped, and is back. */
import { Notification } from '@jupyterlab/apputils';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';
import { beforeEach, expect, it, vi } from 'vitest';

import type { IStored } from '../server/storedvariables';
import { msg } from '../testing/make';
import { BackAgain } from './backagain';
import { offerStored } from './storedvariables';

const STORED: IStored = {
  kernel_id: 'one',
  path: 'a.ipynb',
  kept: ['x'],
  lost: [],
  size_bytes: 10,
  until_ms: 0,
  loaded_ms: null
};

/** A tab with one notebook, whose kernel the new server has or has not. */
function tab(isAwake: boolean, all = [STORED]) {
  const changeKernel = vi.fn(() => Promise.resolve(null));
  const sessionContext = {
    session: { kernel: { name: 'python3' } } as object | null,
    changeKernel,
    sessionManager: {
      refreshRunning: () => {
        if (!isAwake) {
          sessionContext.session = null;
        }
        return Promise.resolve();
      }
    }
  };
  const panel = { sessionContext, context: { path: 'a.ipynb' } };
  const notebooks = {
    forEach: (each: (one: NotebookPanel) => void) => {
      each(panel as unknown as NotebookPanel);
    }
  } as unknown as INotebookTracker;
  const owner = {};
  const model = {
    changed: new Signal<object, string>(owner),
    gone: null as object | null,
    connection: 'ok'
  };
  const stored = vi.fn(() => Promise.resolve(all));
  const api = { stored, request: vi.fn() };
  const commands = new CommandRegistry();
  const options = { api, model, notebooks, msg, commands };
  new BackAgain(options as never);
  const say = (gone: object | null, connection: string) => {
    Object.assign(model, { gone, connection });
    Object.defineProperty(owner, 'gone', { value: gone, configurable: true });
    Object.assign(owner, { connection });
    model.changed.emit('status');
  };
  return { say, changeKernel, stored, options };
}

const emit = vi.spyOn(Notification, 'emit').mockReturnValue('');
/** Of which notebooks something was offered. */
const offered = () =>
  emit.mock.calls.map(([text]) => /\w+\.ipynb/.exec(text)?.[0]);

beforeEach(() => {
  emit.mockClear();
  window.localStorage.clear();
});

it('have a kernel again, and are offered what was kept, though another tab was', async () => {
  window.localStorage.setItem('gpucommons:stored-told', '["one"]');
  const { say, changeKernel } = tab(false);
  say({}, 'lost');
  say(null, 'lost');
  expect(changeKernel).not.toHaveBeenCalled();
  say(null, 'ok');
  await vi.waitFor(() => {
    expect(offered()).toEqual(['a.ipynb']);
  });
  expect(changeKernel).toHaveBeenCalledWith({ name: 'python3' });
});

it('are offered nothing once more that this tab has offered, nor after a reload', async () => {
  const stored = [
    { ...STORED, kernel_id: 'two' },
    { ...STORED, kernel_id: 'three', loaded_ms: 1 },
    { ...STORED, kernel_id: 'four', path: 'b.ipynb' },
    { ...STORED, kernel_id: 'five' }
  ];
  const { say, options } = tab(false, stored);
  offerStored(stored.slice(0, 1), options);
  expect(offered()).toEqual(['a.ipynb']);
  say({}, 'lost');
  say(null, 'ok');
  await vi.waitFor(() => {
    expect(offered()).toEqual(['a.ipynb', 'a.ipynb']);
  });
  offerStored(stored, options);
  expect(offered()).toEqual(['a.ipynb', 'a.ipynb', 'b.ipynb']);
  offerStored(stored, options);
  expect(offered()).toHaveLength(3);
});

it('keep a kernel that was woken', async () => {
  const { say, changeKernel, stored } = tab(true);
  say({}, 'lost');
  say(null, 'ok');
  await vi.waitFor(() => {
    expect(stored).toHaveBeenCalled();
  });
  expect(changeKernel).not.toHaveBeenCalled();
});

it('ask nothing where no server was gone', () => {
  const { say, stored } = tab(false);
  say(null, 'ok');
  expect(stored).not.toHaveBeenCalled();
});
