/** What a tab needs from its first notebook on; a chunk of its own. */
import type { INotebookTracker } from '@jupyterlab/notebook';

import { BackAgain, type IBackOptions } from '../notices/backagain';
import { LateOutputs } from './lateoutputs';

export function opened(
  { model, msg, commands }: Pick<IBackOptions, 'model' | 'msg' | 'commands'>,
  notebooks: INotebookTracker
): void {
  const { api } = model;
  new LateOutputs(api, notebooks);
  new BackAgain({ api, model, msg, commands, notebooks });
}
