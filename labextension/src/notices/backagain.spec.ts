/** Notebooks of a tab whose server was stopped, and is back. */
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { Signal } from '@lumino/signaling';
import { expect, it, vi } from 'vitest';

import type { IStored } from '../server/storedvariables';
import { msg } from '../testing/make';
import { BackAgain, ofThisTab } from './backagain';

vi.mock('./storedvariables', () => ({ offerThese: vi.fn() }));

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
function tab(isAwake: boolean) {
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
  const stored = vi.fn(() => Promise.resolve([STORED]));
  const options = { api: { stored }, model, notebooks, msg, commands: {} };
  new BackAgain(options as never);
  const say = (gone: object | null, connection: string) => {
    Object.assign(model, { gone, connection });
    Object.defineProperty(owner, 'gone', { value: gone, configurable: true });
    Object.assign(owner, { connection });
    model.changed.emit('status');
  };
  return { say, changeKernel, stored };
}

it('have a kernel again, and are offered what was kept, though another tab was', async () => {
  const { offerThese } = await import('./storedvariables');
  const { say, changeKernel } = tab(false);
  say({}, 'lost');
  say(null, 'lost');
  expect(changeKernel).not.toHaveBeenCalled();
  say(null, 'ok');
  await vi.waitFor(() => {
    expect(offerThese).toHaveBeenCalledTimes(1);
  });
  expect(changeKernel).toHaveBeenCalledWith({ name: 'python3' });
  expect(vi.mocked(offerThese).mock.calls[0]?.[0]).toEqual([STORED]);
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

it('are offered only what is theirs, not loaded, and not offered in this tab', () => {
  const all = [
    STORED,
    { ...STORED, kernel_id: 'two', path: 'b.ipynb' },
    { ...STORED, kernel_id: 'three', loaded_ms: 1 },
    { ...STORED, kernel_id: 'four' }
  ];
  const found = ofThisTab(all, new Set(['a.ipynb']), new Set(['four']));
  expect(found.map(each => each.kernel_id)).toEqual(['one']);
});
