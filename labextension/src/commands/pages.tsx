/** Commands that open a page of the main area; what draws it comes when it is first opened. */
import type { ILabShell, JupyterFrontEnd } from '@jupyterlab/application';

import { chunk } from '../components/chunk';
import type { IPanelContext } from '../components/context';
import { h } from '../components/h';
import { type IPage, PageWidget } from '../components/pagewidget';
import { CommandIDs } from '../lab/ids';
import { takes } from './commandoptions';

const Schedules = chunk(() =>
  import(
    /* webpackChunkName: "page-schedules" */ '../schedulepage/schedulepage'
  ).then(page => page.SchedulePage)
);

const Pipelines = chunk(() =>
  import(
    /* webpackChunkName: "page-pipelines" */ '../pipelinepage/pipelinepage'
  ).then(page => page.PipelinePage)
);

export function addPages(options: {
  app: JupyterFrontEnd;
  context: IPanelContext;
  labShell: ILabShell | null;
}): void {
  const { app, context, labShell } = options;
  const { trans } = context.msg;
  const add = (command: string, page: Omit<IPage, 'id'>) => {
    let open: PageWidget | null = null;
    const id = command.replace(':', '-');
    app.commands.addCommand(command, {
      label: trans.__('Show %1', page.label),
      describedBy: takes({ wanted: { type: 'string' } }),
      execute: ({ wanted }) => {
        if (open === null || open.isDisposed) {
          open = new PageWidget(context, { id, ...page });
          // Notebook 7 keeps its main area for one document.
          app.shell.add(open, labShell ? 'main' : 'right');
        }
        open.want(typeof wanted === 'string' ? wanted : null);
        app.shell.activateById(open.id);
      }
    });
  };
  add(CommandIDs.schedules, {
    label: trans.__('Schedules'),
    draw: wanted => <Schedules wanted={wanted} />
  });
  add(CommandIDs.pipelines, {
    label: trans.__('Pipelines'),
    draw: wanted => <Pipelines wanted={wanted} />
  });
}
