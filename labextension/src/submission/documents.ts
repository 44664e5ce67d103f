/** What is open in the main area and could run as a job, the current document first. */
import type { ILabShell, JupyterFrontEnd } from '@jupyterlab/application';
import type { INotebookModel } from '@jupyterlab/notebook';
import type {
  DocumentRegistry,
  IDocumentWidget
} from '@jupyterlab/docregistry';
import type { Widget } from '@lumino/widgets';

import type { ICandidate } from './candidate';
import { TrainModel } from './train';

const RUNNABLE = /\.(ipynb|py|sh)$/;

export function isRunnable(path: string): boolean {
  return RUNNABLE.test(path);
}

/** A file that may hold the steps of a pipeline. */
export function isSteps(path: string): boolean {
  return /\.ya?ml$/.test(path);
}

/** Keeps "What to run" in step with the open documents. */
export class DocumentWatcher {
  constructor(
    private readonly _app: JupyterFrontEnd,
    _labShell: ILabShell | null,
    private readonly _train: TrainModel
  ) {
    _app.shell.currentChanged?.connect(this.refresh, this);
    if (_labShell) {
      _labShell.layoutModified.connect(this.refresh, this);
    }
    void _app.restored.then(() => {
      this.refresh();
    });
  }

  refresh(): void {
    const contexts: DocumentRegistry.Context[] = [];
    const add = (widget: Widget | null) => {
      const context = contextOf(widget);
      if (
        context &&
        isRunnable(context.path) &&
        !contexts.some(each => each.path === context.path)
      ) {
        contexts.push(context);
      }
    };
    const current = this._app.shell.currentWidget;
    if (current && contextOf(current)) {
      this._lastDocument = current;
    }
    if (this._lastDocument?.isDisposed) {
      this._lastDocument = null;
    }
    add(this._lastDocument);
    for (const widget of this._app.shell.widgets('main')) {
      add(widget);
    }
    for (const context of contexts) {
      this._watch(context);
    }
    this._train.setCandidates(contexts.map(candidate));
  }

  private _watch(context: DocumentRegistry.Context): void {
    if (!this._watched.has(context)) {
      this._watched.add(context);
      context.saveState.connect(this.refresh, this);
      context.model.stateChanged.connect(this.refresh, this);
      context.pathChanged.connect(this.refresh, this);
    }
  }

  private _lastDocument: Widget | null = null;
  private readonly _watched = new WeakSet<DocumentRegistry.Context>();
}

/** Documents of every kind carry their context; asking each widget for it needs no registry. */
export function contextOf(
  widget: Widget | null
): DocumentRegistry.Context | null {
  const { context } = (widget ?? {}) as Partial<IDocumentWidget>;
  return context?.contentsModel !== undefined ? context : null;
}

/** The file of a widget, where it can run. */
export function runnablePath(widget: Widget | null): string | null {
  const path = contextOf(widget)?.path ?? '';
  return isRunnable(path) ? path : null;
}

function candidate(context: DocumentRegistry.Context): ICandidate {
  const saved = context.contentsModel?.last_modified;
  const { path, model } = context;
  return {
    path,
    savedMs: saved ? Date.parse(saved) : null,
    isDirty: model.dirty,
    sources: () =>
      path.endsWith('.ipynb')
        ? Array.from((model as INotebookModel).cells)
            .filter(cell => cell.type === 'code')
            .map(cell => cell.sharedModel.getSource())
        : [],
    edited: model.contentChanged,
    save: () => context.save()
  };
}
