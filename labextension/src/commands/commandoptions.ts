/** What all files of commands share: what they act on, and how one is added and fails. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { showErrorMessage } from '@jupyterlab/apputils';
import type { IFileBrowserFactory } from '@jupyterlab/filebrowser';
import type { INotebookTracker } from '@jupyterlab/notebook';
import type { CommandRegistry } from '@lumino/commands';

import { told } from '../server/api';
import type { Messages } from '../text/messages';
import type { Model } from '../model/model';
import type { Place, TrainModel } from '../submission/train';

export interface ICommandOptions {
  app: JupyterFrontEnd;
  model: Model;
  train: TrainModel;
  msg: Messages;
  notebooks: INotebookTracker | null;
  files: IFileBrowserFactory | null;
  /** Show it, with the focus in it or at this place of *Train*. */
  showPanel(place?: Place): void;
  /** In place of the page of the job that it goes on from, if there is one. */
  openJob(id: string, from?: string): void;
  /** The job of the page in front. */
  currentJob(): string | null;
}

export const takes = (
  properties: Record<string, { type: 'string' | 'boolean' }>
): CommandRegistry.ICommandOptions['describedBy'] => ({
  args: { type: 'object', properties }
});

/** Adds commands; those that do not say what they take take nothing. */
export function adder({ app }: ICommandOptions) {
  const describedBy = takes({});
  return (id: string, options: CommandRegistry.ICommandOptions) =>
    app.commands.addCommand(id, { describedBy, ...options });
}

export async function attempt(
  { msg }: ICommandOptions,
  action: () => Promise<void>
): Promise<void> {
  try {
    await action();
  } catch (error) {
    await showErrorMessage(msg.trans.__('That did not work'), told(error));
  }
}
