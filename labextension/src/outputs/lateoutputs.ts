/**
 * Shows what cells have printed while this page was not there: in a notebook that is opened again, in
 * whatever browser, and in one whose server is back. This comes as a chunk with the first notebook.
 */
import type { CodeCell } from '@jupyterlab/cells';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';

import type { Api } from '../server/api';
import type { ICellRun } from './cellruns';
import {
  FirstWords,
  FollowedRun,
  follows,
  joined,
  Listener,
  refill
} from './cellrun';

type Asked = Pick<Api, 'request'>;

const WHERE = ['cell-runs'];
/** Before a server that is behind its kernel is asked again. */
const AGAIN_MS = 250;
/** Of JupyterLab: a box for an answer. */
const ASKS = 'jp-OutputArea-stdin-item';

/** Cells that stand there as they were run; a page's own runs it shows by itself, as far as it heard them. */
export function toShow<
  T extends { model: { id: string; sharedModel: { getSource(): string } } }
>(
  runs: readonly ICellRun[],
  cells: readonly T[],
  session: string | undefined
): [ICellRun, T][] {
  return runs
    .filter(run => run.session !== session || run.is_unseen)
    .flatMap(run => {
      const cell = cells.find(each => each.model.id === run.cell_id);
      const isSame = cell?.model.sharedModel.getSource() === run.code;
      return cell && isSame ? [[run, cell] as [ICellRun, T]] : [];
    });
}

/** What an output area is cleared of takes the box along in which a cell asks, and nobody could answer it. */
export function keepingQuestions(
  area: Pick<CodeCell['outputArea'], 'widgets' | 'layout'>,
  change: () => void
): void {
  const boxes = area.widgets.filter(each => each.hasClass(ASKS));
  for (const box of boxes) {
    box.parent = null;
  }
  change();
  for (const box of boxes) {
    area.layout.addWidget(box);
  }
}

export class LateOutputs {
  constructor(
    private readonly _api: Asked,
    notebooks: INotebookTracker
  ) {
    notebooks.widgetAdded.connect((_, panel) => {
      void this._open(panel);
    });
    notebooks.forEach(panel => {
      void this._open(panel);
    });
  }

  private async _open(panel: NotebookPanel): Promise<void> {
    await panel.context.ready;
    await panel.sessionContext.ready;
    const firsts = new FirstWords();
    this._firsts.set(panel, firsts);
    panel.disposed.connect(() => {
      firsts.dispose();
    });
    let isAway = false;
    panel.sessionContext.connectionStatusChanged.connect((_, status) => {
      if (status !== 'connected') {
        isAway = true;
      } else if (isAway) {
        isAway = false;
        void this._look(panel);
      }
    });
    await this._look(panel);
  }

  private async _look(panel: NotebookPanel): Promise<void> {
    const kernel = panel.sessionContext.session?.kernel ?? null;
    if (panel.isDisposed) {
      return;
    }
    const listener = kernel && new Listener(kernel);
    try {
      const { path } = panel.context;
      let runs = await this._runs(path, kernel?.id ?? '');
      if (listener && runs.some(run => run.state === 'running')) {
        // What came in between would be neither in the one nor heard.
        await listener.hears();
        runs = await joined(
          listener,
          () => this._runs(path, kernel.id),
          () => new Promise(resolve => window.setTimeout(resolve, AGAIN_MS))
        );
      }
      this._show(runs, panel, kernel, listener);
    } catch {
      // Who may not see them, and a server that keeps none: the notebook is as its file is.
    } finally {
      listener?.stop();
    }
  }

  private async _runs(path: string, kernel: string): Promise<ICellRun[]> {
    const query = `?${new URLSearchParams({ path, kernel }).toString()}`;
    const answer = await this._api.request<{ runs: ICellRun[] }>(
      'GET',
      WHERE,
      undefined,
      { query }
    );
    return answer.runs;
  }

  private _show(
    runs: ICellRun[],
    panel: NotebookPanel,
    kernel: Kernel.IKernelConnection | null,
    listener: Listener | null
  ): void {
    if (panel.isDisposed) {
      return;
    }
    const cells = panel.content.widgets.filter(
      (each): each is CodeCell => each.model.type === 'code'
    );
    for (const [run, cell] of toShow(runs, cells, kernel?.clientId)) {
      const since = listener?.after(run) ?? [];
      if (run.state === 'running' && listener?.of(run).length === 0) {
        this._lookAtFirst(run, panel);
      }
      const own = cell.outputArea.future as Kernel.IShellFuture | undefined;
      if (own && run.session === kernel?.clientId && run.state === 'running') {
        // Only that one can answer what the cell may ask.
        keepingQuestions(cell.outputArea, () => {
          cell.outputArea.model.clear();
          refill(own, run, since);
        });
        void own.done.then(
          () => {
            this._forgetWhenSaved(run, panel);
          },
          () => undefined
        );
        continue;
      }
      const { model } = cell;
      const followed = new FollowedRun(run, kernel, count => {
        model.executionCount = count;
        model.executionState = 'idle';
        this._forgetWhenSaved(run, panel);
      });
      model.trusted = true; // As when it is run: its user has run it.
      model.executionState = 'running';
      cell.outputArea.future = followed;
      followed.begin(since);
    }
  }

  /** A run that was silent may not have been heard yet: the first word that is heard of it tells. */
  private _lookAtFirst(run: ICellRun, panel: NotebookPanel): void {
    const kernel = panel.sessionContext.session?.kernel;
    if (!kernel) {
      return;
    }
    this._firsts.get(panel)?.of(kernel, run, async first => {
      const runs = await this._runs(panel.context.path, kernel.id).catch(
        () => []
      );
      const now = runs.find(each => each.id === run.id);
      if (!follows(first, run, now)) {
        await this._look(panel);
      }
    });
  }

  /** Until then another page needs them, should this one be closed. */
  private _forgetWhenSaved(run: ICellRun, panel: NotebookPanel): void {
    const { context } = panel;
    const saved = (_: unknown, state: string) => {
      if (state === 'completed') {
        context.saveState.disconnect(saved);
        const body = { runs: [run.id] };
        void this._api.request('POST', WHERE, body).catch(() => undefined);
      }
    };
    context.saveState.connect(saved);
  }

  private readonly _firsts = new WeakMap<NotebookPanel, FirstWords>();
}
