/**
 * When a server that was stopped is back, the notebooks of this tab go on: each has a kernel of its kind
 * again, under its own path, and what the last server stored of it is offered over it. Lab itself would
 * let go of the ended kernel and ask for another when a cell is run.
 */
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';

import type { Model } from '../model/model';
import type { IOfferOptions } from './storedvariables';

export interface IBackOptions extends IOfferOptions {
  model: Model;
  notebooks: INotebookTracker;
}

export class BackAgain {
  constructor(private readonly _options: IBackOptions) {
    _options.model.changed.connect((model, topic) => {
      if (topic !== 'status') {
        return;
      }
      if (model.gone !== null) {
        this._note();
      } else if (model.connection === 'ok' && this._had !== null) {
        const had = this._had;
        this._had = null;
        void this._goOn(had);
      }
    });
  }

  /** Which kernels the notebooks had; Lab forgets it once it has seen that these are gone. */
  private _note(): void {
    const had = this._had ?? new Map<NotebookPanel, string>();
    this._options.notebooks.forEach(panel => {
      const name = panel.sessionContext.session?.kernel?.name;
      if (name) {
        had.set(panel, name);
      }
    });
    this._had = had;
  }

  private async _goOn(had: Map<NotebookPanel, string>): Promise<void> {
    await seen();
    await Promise.all(
      // What cannot be started is asked for by Lab, as ever.
      Array.from(had, each => withKernel(...each).catch(() => undefined))
    );
    const stored = await this._options.api.stored().catch(() => []);
    const paths = new Set<string>();
    this._options.notebooks.forEach(panel => {
      paths.add(panel.context.path);
    });
    if (stored.length > 0) {
      const { offerHere } = await import(
        /* webpackChunkName: "page-stored" */ './storedvariables'
      );
      offerHere(stored, this._options, paths);
    }
  }

  private _had: Map<NotebookPanel, string> | null = null;
}

/** A notebook whose kernel ended has a new one of the same kind; one that was woken is left alone. */
export async function withKernel(
  panel: NotebookPanel,
  name: string
): Promise<void> {
  const { sessionContext } = panel;
  // Lab lets go of what the new server does not have.
  await sessionContext.sessionManager.refreshRunning();
  if (!panel.isDisposed && !sessionContext.session?.kernel) {
    await sessionContext.changeKernel({ name });
  }
}

/** Lab asks its server nothing in a tab that nobody sees. */
async function seen(): Promise<void> {
  while (document.hidden) {
    await new Promise(resolve => {
      document.addEventListener('visibilitychange', resolve, { once: true });
    });
  }
}
