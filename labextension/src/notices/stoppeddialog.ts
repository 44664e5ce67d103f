/**
 * Says that the notebook server is gone, why, and what was kept, whether the panel is open or not. It
 * comes with Lab's start: when it is needed there is no server left to fetch it from.
 */
import {
  type IConnectionLost,
  ConnectionLost,
  type JupyterFrontEnd,
  type JupyterLab
} from '@jupyterlab/application';
import { Dialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import { contextOf } from '../submission/documents';
import type { Messages } from '../text/messages';
import type { Model } from '../model/model';
import type { IStopped } from '../server/stoppedserver';

/** How long the hub may take to notice that the server is gone. */
const PATIENCE_MS = 5000;

export interface IStoppedOptions {
  app: JupyterFrontEnd;
  model: Model;
  msg: Messages;
  /** Where Lab keeps whether it still asks its server anything. */
  info: JupyterLab.IInfo | null;
}

/** What Lab calls when its server does not answer; its own words stay for all that is no stop. */
export function tellStops(options: IStoppedOptions): IConnectionLost {
  const { model, info } = options;
  let dialog: Dialog<unknown> | null = null;
  let lost: Dialog<unknown> | undefined;
  let isTold = false;
  const rest = (rests: boolean) => {
    if (info) {
      info.isConnected = !rests;
    }
  };
  model.changed.connect((_, topic) => {
    if (topic !== 'status') {
      return;
    }
    if (model.api.isConnected || model.gone !== null) {
      // Lab's own words would lie over the notebook, or hold ours back, until somebody closed them.
      lost?.reject();
      lost = undefined;
    }
    if (model.gone === null && isTold) {
      // It is back, by whoever's hand.
      isTold = false;
      rest(false);
      dialog?.reject();
    } else if (model.gone !== null && !isTold) {
      isTold = true;
      rest(true);
      dialog = stoppedDialog(model.gone, options);
      void launch(dialog, model.gone, options);
    }
  });
  const look = () => {
    if (model.gone !== null && !document.hidden) {
      // Started again in another tab, it may be back.
      model.api.connect();
    }
  };
  window.addEventListener('focus', look);
  document.addEventListener('visibilitychange', look);
  return async (manager, error, translator) => {
    if (!(await model.learnsStop(PATIENCE_MS)) && !model.api.isConnected) {
      const open = new Set(dialogs());
      const told = ConnectionLost(manager, error, translator);
      lost = dialogs().find(one => !open.has(one)) ?? lost;
      await told;
    }
  };
}

function dialogs(): Dialog<unknown>[] {
  return Dialog.tracker.filter(() => true);
}

async function launch(
  dialog: Dialog<unknown>,
  gone: IStopped,
  options: IStoppedOptions
): Promise<void> {
  const { button } = await dialog.launch();
  if (button.accept) {
    await startAgain(gone, options);
  }
}

function stoppedDialog(
  gone: IStopped,
  { app, msg }: IStoppedOptions
): Dialog<unknown> {
  const body = new Widget();
  body.addClass('gc-Stopped');
  for (const line of [...msg.ofStop(gone, unsaved(app)), gone.again]) {
    if (line) {
      body.node.appendChild(document.createElement('p')).textContent = line;
    }
  }
  return new Dialog<unknown>({
    title: msg.stoppedTitle(gone),
    body,
    buttons: [
      Dialog.cancelButton({ label: msg.notNow() }),
      ...(gone.startUrl === null
        ? []
        : [Dialog.okButton({ label: msg.startAgain() })])
    ],
    defaultButton: 1
  });
}

/**
 * As the hub starts it. Where something in this tab is not saved yet it stays, and goes on when the server
 * is back: in a second Lab the same notebook would be open twice. Only what the hub asks first comes beside it.
 */
export async function startAgain(
  { startUrl }: IStopped,
  { app, model, msg }: Pick<IStoppedOptions, 'app' | 'model' | 'msg'>
): Promise<void> {
  if (startUrl === null) {
    return;
  }
  if (unsaved(app) === 0) {
    window.location.assign(startUrl);
    return;
  }
  if (!(await model.api.startAgain(startUrl))) {
    window.open(startUrl, '_blank', 'noopener');
  }
  if (model.gone === null) {
    return;
  }
  // No notification: what shows those may have to be fetched from the server first.
  const body = new Widget();
  const link = document.createElement('a');
  link.href = startUrl;
  link.target = '_blank';
  link.rel = 'noopener';
  link.textContent = msg.startAgain();
  body.node.append(`${msg.startsHere()} `, link);
  const told = new Dialog<unknown>({
    title: msg.startAgain(),
    body,
    buttons: [Dialog.okButton({ label: msg.trans.__('Close') })]
  });
  const close = () => {
    if (!model.gone) {
      told.reject();
    }
  };
  model.changed.connect(close);
  await told.launch().finally(() => model.changed.disconnect(close));
}

/** How many open documents have changes that only this tab holds. */
function unsaved({ shell }: JupyterFrontEnd): number {
  const contexts = new Set(Array.from(shell.widgets('main'), contextOf));
  return [...contexts].filter(context => context?.model.dirty).length;
}
