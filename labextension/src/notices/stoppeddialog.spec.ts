import type { JupyterFrontEnd } from '@jupyterlab/application';
import { ServerConnection, type ServiceManager } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import type { Model } from '../model/model';
import { msg } from '../testing/make';
import { startAgain, tellStops } from './stoppeddialog';

const GONE = {
  why: 'Stopped at 14:02: idle 60 min.',
  kept: ['Kept: 1 kernel (1.2 GB), until 3 December.'],
  lost: [],
  again: '',
  startUrl: '/hub/start'
};

const MANAGER = {} as ServiceManager.IManager;
const FAILED = new ServerConnection.NetworkError(new TypeError('away'));

/** A server that does not answer, of which the hub says nothing until the test lets it. */
function silent() {
  const owner = {};
  const changed = new Signal<typeof owner, string>(owner);
  const model = {
    changed,
    gone: null as typeof GONE | null,
    api: { isConnected: false, connect: () => undefined },
    learnsStop: () => Promise.resolve(model.gone !== null)
  };
  const tell = (gone: typeof GONE | null, isConnected = false) => {
    model.gone = gone;
    model.api.isConnected = isConnected;
    changed.emit('status');
  };
  return { model: model as unknown as Model, tell };
}

function titles(): (string | null)[] {
  return Array.from(
    document.querySelectorAll('.jp-Dialog-header'),
    each => each.textContent
  );
}

beforeEach(() => {
  // Of browsers, not of jsdom: Lab draws parts of a dialog in it.
  vi.stubGlobal('requestIdleCallback', (draw: () => void) => {
    draw();
  });
});

afterEach(() => {
  vi.unstubAllGlobals();
});

it('comes in the place of what Lab says, as soon as the hub tells of a stop', async () => {
  const { model, tell } = silent();
  const shell = { widgets: () => [] };
  const app = { shell } as unknown as JupyterFrontEnd;
  const lost = tellStops({ app, model, msg, info: null });
  const told = lost(MANAGER, FAILED);
  await vi.waitFor(() => {
    expect(titles()).toEqual(['Server Connection Error']);
  });

  tell(GONE);

  await vi.waitFor(() => {
    expect(titles()).toEqual([msg.stoppedTitle(GONE)]);
  });
  await told;
  expect(document.body.textContent).toContain(msg.startAgain());
  // Whoever else finds the server gone is told nothing more.
  await lost(MANAGER, FAILED);
  expect(titles()).toHaveLength(1);

  tell(null, true);
  await vi.waitFor(() => {
    expect(titles()).toEqual([]);
  });
});

const DIRTY = { context: { contentsModel: null, model: { dirty: true } } };

/** A tab with changes that only it holds, whose hub starts the server at once, or asks something first. */
function unsaved(starts: boolean) {
  const { model, tell } = silent();
  tell(GONE);
  const asked = vi.fn(() => Promise.resolve(starts));
  Object.assign(model.api, { startAgain: asked });
  const shell = { widgets: () => [DIRTY] };
  const app = { shell } as unknown as JupyterFrontEnd;
  const opened = vi.fn();
  vi.stubGlobal('open', opened);
  const start = () => startAgain(GONE, { app, model, msg });
  return { start, asked, opened, tell };
}

it('starts again in a tab with unsaved changes, which waits and opens no second Lab', async () => {
  const { start, asked, opened, tell } = unsaved(true);
  const told = start();
  await vi.waitFor(() => {
    expect(titles()).toEqual([msg.startAgain()]);
  });

  expect(asked).toHaveBeenCalledWith('/hub/start');
  expect(opened).not.toHaveBeenCalled();
  expect(document.body.textContent).toContain(msg.startsHere());
  tell(null, true);
  await told;
  expect(titles()).toEqual([]);
});

it('shows beside it what the hub asks first', async () => {
  const { start, opened, tell } = unsaved(false);
  const told = start();
  await vi.waitFor(() => {
    expect(opened).toHaveBeenCalledWith('/hub/start', '_blank', 'noopener');
  });
  await vi.waitFor(() => {
    expect(titles()).toEqual([msg.startAgain()]);
  });
  tell(null, true);
  await told;
});
