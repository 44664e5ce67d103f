/** Commands that open a page of the main area; all of it comes when it is first opened. */
import type { IFileBrowserFactory } from '@jupyterlab/filebrowser';

import { gpuIcon } from '../lab/icons';
import { CommandIDs, pagesOf } from '../lab/ids';
import { contextOf, isSteps } from '../submission/documents';
import { takes } from './commandoptions';
import type { IPages } from './pagewidget';

export function addPages(
  options: IPages & { files: IFileBrowserFactory | null }
): void {
  const { app, context } = options;
  const { trans } = context.msg;
  for (const [command, label] of pagesOf(trans)) {
    app.commands.addCommand(command, {
      label: trans.__('Show %1', label),
      describedBy: takes({ wanted: { type: 'string' } }),
      execute: async ({ wanted }) => {
        const { openPage } = await import(
          /* webpackChunkName: "page-pages" */ './pagewidget'
        );
        openPage(options, command, label, wanted);
      }
    });
  }
  app.commands.addCommand(CommandIDs.runPipeline, {
    label: trans.__('Run as Pipeline…'),
    icon: gpuIcon,
    describedBy: takes({
      path: { type: 'string' },
      asks: { type: 'boolean' }
    }),
    // In the menu of an editor it stands where the file may hold steps.
    isVisible: args =>
      args['isEditor'] !== true ||
      isSteps(contextOf(app.shell.currentWidget)?.path ?? ''),
    execute: async args => {
      const { runPipeline } = await import(
        /* webpackChunkName: "page-run-pipeline" */ '../pipelinepage/rundialog'
      );
      await runPipeline(options, args);
    }
  });
}
