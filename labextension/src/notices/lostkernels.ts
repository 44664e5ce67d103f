/**
 * Says over a notebook that its kernel began anew, or came back without its GPU memory. Nothing else on the page would: prompts, outputs and
 * the kernel's name are as they were, and the next cell fails for a variable that is not there.
 */
import { Notification } from '@jupyterlab/apputils';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';

import { CommandIDs } from '../lab/ids';
import type { Model } from '../model/model';
import type { ILostKernel, IWokenKernel } from '../server/lostkernels';
import type { Messages } from '../text/messages';
import { lostKernelMessages } from './lostkernelmessages';

const TOLD = 'gpucommons:woken-told';
const TOLD_FOR_MS = 15_000;
const DAY_MS = 24 * 3600 * 1000;

/** What is said, or null where this notebook has what it had. */
export function lossOf(
  lost: readonly ILostKernel[],
  path: string,
  kernelId: string | undefined
): ILostKernel | null {
  return (
    lost.find(each => each.kernel_id === kernelId) ??
    lost.find(each => each.path !== '' && each.path === path) ??
    null
  );
}

/** Why this notebook's kernel is back without its GPU memory; null where that is not so. */
export function parkedOf(
  woken: readonly IWokenKernel[],
  kernelId: string | undefined
): string | null {
  return woken.find(each => each.kernel_id === kernelId)?.parked || null;
}

/** What came back and was not told in this browser; after a day it is no news. */
export function newsOf(
  woken: readonly IWokenKernel[],
  toldMs: number,
  nowMs: number
): IWokenKernel[] {
  const since = Math.max(toldMs, nowMs - DAY_MS);
  return woken.filter(each => each.at_ms > since);
}

/** Says once in this browser that kernels are back. */
function tellWoken(model: Model, msg: Messages): void {
  const told = Number(window.localStorage.getItem(TOLD) ?? 0) || 0;
  // A banner over its notebook tells of one without its GPU memory.
  const whole = model.wokenKernels.filter(each => each.parked === '');
  const news = newsOf(whole, told, model.clock.now());
  if (news.length > 0) {
    window.localStorage.setItem(
      TOLD,
      String(Math.max(...news.map(each => each.at_ms)))
    );
    const text = lostKernelMessages(msg).kernelsBack(
      news.map(each => each.path),
      news.every(each => each.moved)
    );
    Notification.success(text, { autoClose: TOLD_FOR_MS });
  }
}

export class LostKernels {
  constructor(
    private readonly _model: Model,
    notebooks: INotebookTracker,
    private readonly _msg: Messages,
    private readonly _commands: CommandRegistry
  ) {
    notebooks.widgetAdded.connect((_, panel) => {
      this._follow(panel);
    });
    notebooks.forEach(panel => {
      this._follow(panel);
    });
    _model.changed.connect((_, topic) => {
      if (topic === 'kernels') {
        tellWoken(_model, _msg);
        notebooks.forEach(panel => {
          this._update(panel);
        });
      }
    });
    tellWoken(_model, _msg);
  }

  private _follow(panel: NotebookPanel): void {
    panel.sessionContext.kernelChanged.connect(() => {
      this._update(panel);
    });
    void panel.context.ready.then(() => {
      this._update(panel);
    });
  }

  private _update(panel: NotebookPanel): void {
    if (panel.isDisposed) {
      return;
    }
    const { path } = panel.context;
    const kernel = panel.sessionContext.session?.kernel?.id;
    const loss = lossOf(this._model.lostKernels, path, kernel);
    const parked = parkedOf(this._model.wokenKernels, kernel);
    const because = loss?.because ?? parked;
    const shown = this._banners.get(panel);
    if ((shown?.because ?? null) === because) {
      return;
    }
    shown?.banner.dispose();
    this._banners.delete(panel);
    if (because !== null) {
      const banner = loss ? this._lost(loss) : this._parked(because);
      this._banners.set(panel, { because, banner });
      panel.contentHeader.addWidget(banner);
    }
  }

  private _lost(loss: ILostKernel): Widget {
    const words = lostKernelMessages(this._msg);
    const banner = made(
      loss.kept_until_ms > 0
        ? words.kernelWaits(loss.because, loss.kept_until_ms)
        : words.kernelLost(loss.because, loss.stored)
    );
    if (loss.stored > 0) {
      addButton(banner, this._msg.trans.__('Show…'), () => {
        void this._commands.execute(CommandIDs.storedVariables);
      });
    }
    addButton(banner, this._msg.trans.__('Close'), () => {
      this._model.closeLostKernel(loss.kernel_id);
    });
    return banner;
  }

  /** Hidden by *Close*, in this page: it stays true until the server starts again. */
  private _parked(because: string): Widget {
    const banner = made(lostKernelMessages(this._msg).kernelParked(because));
    addButton(banner, this._msg.trans.__('Close'), () => {
      banner.hide();
    });
    return banner;
  }

  private readonly _banners = new Map<
    NotebookPanel,
    { because: string; banner: Widget }
  >();
}

function made(text: string): Widget {
  const banner = new Widget();
  banner.addClass('gc-LostKernel');
  banner.addClass('gc-Callout');
  banner.node.setAttribute('role', 'status');
  const said = banner.node.appendChild(document.createElement('span'));
  said.textContent = text;
  return banner;
}

function addButton(to: Widget, label: string, press: () => void): void {
  const button = to.node.appendChild(document.createElement('button'));
  button.type = 'button';
  button.className = 'gc-Link';
  button.textContent = label;
  button.addEventListener('click', press);
}
