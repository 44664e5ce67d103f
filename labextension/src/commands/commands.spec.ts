/** Which job a command means. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { CommandRegistry } from '@lumino/commands';
import { expect, it } from 'vitest';

import { addCommands } from './commands';
import { CommandIDs } from '../lab/ids';
import { Model } from '../model/model';
import { makeJob, msg } from '../testing/make';
import { fakeApi } from '../testing/sockets';
import { TrainModel } from '../submission/train';

function opened(args: Record<string, boolean>): Promise<string[]> {
  const row = document.createElement('li');
  row.dataset['job'] = 'row';
  const ids: string[] = [];
  const commands = new CommandRegistry();
  const model = new Model(fakeApi(), String);
  model.jobs = [makeJob({ id: 'row' }), makeJob({ id: 'front' })];
  addCommands({
    // A context menu was once opened on a row of the list.
    app: {
      commands,
      contextMenuHitTest: (test: (node: HTMLElement) => boolean) =>
        test(row) ? row : undefined
    } as unknown as JupyterFrontEnd,
    model,
    train: new TrainModel(model.api, () => true),
    msg,
    notebooks: null,
    files: null,
    showPanel: () => undefined,
    openJob: id => ids.push(id),
    currentJob: () => 'front'
  });
  return commands.execute(CommandIDs.openJob, args).then(() => ids);
}

it('is the one under the pointer in a context menu', async () => {
  expect(await opened({ isContext: true })).toEqual(['row']);
});

it('is that of the page in front, wherever a context menu was opened before', async () => {
  expect(await opened({})).toEqual(['front']);
});
