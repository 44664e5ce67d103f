/**
 * Says over a notebook that its kernel began anew. Nothing else on the page would: prompts, outputs and
 * the kernel's name are as they were, and the next cell fails for a variable that is not there.
 */
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { Widget } from '@lumino/widgets';

import type { Model } from '../model/model';
import type { ILostKernel } from '../server/lostkernels';
import type { Messages } from '../text/messages';

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

export class LostKernels {
  constructor(
    private readonly _model: Model,
    notebooks: INotebookTracker,
    private readonly _msg: Messages
  ) {
    notebooks.widgetAdded.connect((_, panel) => {
      this._follow(panel);
    });
    notebooks.forEach(panel => {
      this._follow(panel);
    });
    _model.changed.connect((_, topic) => {
      if (topic === 'kernels') {
        notebooks.forEach(panel => {
          this._update(panel);
        });
      }
    });
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
    const shown = this._banners.get(panel);
    if (shown?.loss.because === loss?.because) {
      return;
    }
    shown?.banner.dispose();
    this._banners.delete(panel);
    if (loss !== null) {
      const banner = this._banner(loss);
      this._banners.set(panel, { loss, banner });
      panel.contentHeader.addWidget(banner);
    }
  }

  private _banner(loss: ILostKernel): Widget {
    const banner = new Widget();
    banner.addClass('gc-LostKernel');
    banner.addClass('gc-Callout');
    banner.node.setAttribute('role', 'status');
    const said = banner.node.appendChild(document.createElement('span'));
    said.textContent = this._msg.kernelLost(loss.because);
    const close = banner.node.appendChild(document.createElement('button'));
    close.type = 'button';
    close.className = 'gc-Link';
    close.textContent = this._msg.trans.__('Close');
    close.addEventListener('click', () => {
      this._model.closeLostKernel(loss.kernel_id);
    });
    return banner;
  }

  private readonly _banners = new Map<
    NotebookPanel,
    { loss: ILostKernel; banner: Widget }
  >();
}
