/**
 * Offers the variables that the last server stored. Nothing is loaded without a press here: loading
 * runs code. What is offered once in this browser is offered again by the command alone. This comes
 * as a chunk where something is stored, or with the command.
 */
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';

import type { Api } from '../server/api';
import {
  type ILoaded,
  type IStored,
  loadStored
} from '../server/storedvariables';
import type { Messages } from '../text/messages';
import { storedMessages } from './storedvariablemessages';

const TOLD = 'gpucommons:stored-told';
/** As many as fit beside each other; the rest comes at the next start, or with the command. */
const MOST = 3;
/** So many kernels' offers a browser knows: those of long ago are no longer kept. */
const REMEMBERED = 500;

export interface IOfferOptions {
  api: Pick<Api, 'stored' | 'request'>;
  msg: Messages;
  commands: CommandRegistry;
  notebooks: INotebookTracker | null;
}

/** What this tab has offered; another one may have done so as well. */
const OFFERED = new Set<string>();

/** What is news in this browser: not loaded, not offered before. As much as fits. */
export function toOffer(stored: readonly IStored[], told: string[]): IStored[] {
  return stored
    .filter(each => each.loaded_ms === null && !told.includes(each.kernel_id))
    .slice(0, MOST);
}

/** At the start of Lab, of all that is kept. */
export function offerStored(
  stored: readonly IStored[],
  options: IOfferOptions
): void {
  offerAll(toOffer(stored, readTold()), options);
}

/** To notebooks that are open here, whatever another tab has offered: here it is missed. */
export function offerHere(
  stored: readonly IStored[],
  options: IOfferOptions,
  paths: ReadonlySet<string>
): void {
  const here = stored.filter(each => paths.has(each.path));
  offerAll(toOffer(here, [...OFFERED]), options);
}

/** All that is kept, by command. */
export async function showStored(options: IOfferOptions): Promise<void> {
  const stored = await options.api.stored();
  if (stored.length === 0) {
    Notification.info(storedMessages(options.msg).nothingStored());
  }
  offerAll(stored, options);
}

/** What is offered is told in this tab and in this browser, and nothing else is. */
function offerAll(stored: readonly IStored[], options: IOfferOptions): void {
  for (const each of stored) {
    offer(each, options);
    OFFERED.add(each.kernel_id);
  }
  const told = [...new Set([...readTold(), ...OFFERED])].slice(-REMEMBERED);
  window.localStorage.setItem(TOLD, JSON.stringify(told));
}

function readTold(): string[] {
  try {
    const told: unknown = JSON.parse(window.localStorage.getItem(TOLD) ?? '[]');
    return Array.isArray(told) ? told.map(String) : [];
  } catch {
    return [];
  }
}

function offer(stored: IStored, options: IOfferOptions): void {
  const msg = storedMessages(options.msg);
  Notification.emit(msg.storedText(stored), 'info', {
    autoClose: false,
    actions: [
      {
        label: msg.trans.__('Show…'),
        callback: () => {
          void confirmLoad(stored, options).catch((error: unknown) => {
            Notification.error(
              error instanceof Error ? error.message : String(error)
            );
          });
        }
      }
    ]
  });
}

async function confirmLoad(
  stored: IStored,
  options: IOfferOptions
): Promise<void> {
  const msg = storedMessages(options.msg);
  const canLoad = stored.kept.length > 0;
  const { button } = await showDialog({
    title: msg.storedText(stored),
    body: paragraphs([
      ...(canLoad ? [stored.kept.join(', '), msg.loadExplained(stored)] : []),
      ...stored.lost.map(each => msg.notStored(each))
    ]),
    buttons: [
      Dialog.cancelButton({ label: msg.notNow() }),
      ...(canLoad ? [Dialog.okButton({ label: msg.loadStored() })] : [])
    ]
  });
  if (!button.accept) {
    return;
  }
  const kernel = await kernelFor(stored, options);
  if (kernel === null) {
    throw new Error(msg.noKernelForStored());
  }
  const loaded = await loadStored(options.api, stored.kernel_id, kernel);
  await tellLoaded(loaded, msg);
}

async function tellLoaded(
  loaded: ILoaded,
  msg: ReturnType<typeof storedMessages>
): Promise<void> {
  const lines = [
    ...(loaded.because ? [msg.loadEnded(loaded.because)] : []),
    ...loaded.failed.map(each => msg.storedNotLoaded(each))
  ];
  if (lines.length === 0) {
    Notification.success(msg.loadedText(loaded), { autoClose: 5000 });
    return;
  }
  await showDialog({
    title: msg.loadedText(loaded),
    body: paragraphs(lines),
    buttons: [Dialog.okButton()]
  });
}

/** The kernel of the notebook that they are from, else of the one that is open. */
async function kernelFor(
  stored: IStored,
  { commands, notebooks }: IOfferOptions
): Promise<string | null> {
  let panel: NotebookPanel | null | undefined = notebooks?.currentWidget;
  if (stored.path) {
    panel = (await commands.execute('docmanager:open', {
      path: stored.path
    })) as NotebookPanel | undefined;
  }
  if (!panel) {
    return null;
  }
  await panel.context.ready;
  await panel.sessionContext.ready;
  return panel.sessionContext.session?.kernel?.id ?? null;
}

function paragraphs(lines: string[]): Widget {
  const body = new Widget();
  for (const line of lines) {
    body.node.appendChild(document.createElement('p')).textContent = line;
  }
  return body;
}
