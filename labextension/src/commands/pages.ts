/** Commands that open a page of the main area; all of it comes when it is first opened. */
import type { ILabShell, JupyterFrontEnd } from '@jupyterlab/application';

import type { IPanelContext } from '../components/context';
import { pagesOf } from '../lab/ids';
import { takes } from './commandoptions';
import type { PageWidget } from './pagewidget';

export function addPages(options: {
  app: JupyterFrontEnd;
  context: IPanelContext;
  labShell: ILabShell | null;
}): void {
  const { app, context, labShell } = options;
  const { trans } = context.msg;
  for (const [command, label] of pagesOf(trans)) {
    let open: PageWidget | null = null;
    app.commands.addCommand(command, {
      label: trans.__('Show %1', label),
      describedBy: takes({ wanted: { type: 'string' } }),
      execute: async ({ wanted }) => {
        const { PageWidget: Page } = await import(
          /* webpackChunkName: "page-pages" */ './pagewidget'
        );
        if (open === null || open.isDisposed) {
          open = new Page(app, context, command, label);
          // Notebook 7 keeps its main area for one document.
          app.shell.add(open, labShell ? 'main' : 'right');
        }
        open.want(typeof wanted === 'string' ? wanted : null);
        app.shell.activateById(open.id);
      }
    });
  }
}
