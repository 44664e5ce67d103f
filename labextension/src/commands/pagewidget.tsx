/** Pages of the main area; this comes when the first is opened, and what draws each with it. */
import type { ILabShell, JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget } from '@jupyterlab/apputils';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ReactWidget } from '@jupyterlab/ui-components';
import type * as React from 'react';

import { gpuIcon } from '../lab/icons';
import { chunk } from '../components/chunk';
import { IPanelContext, PanelContext } from '../components/context';
import { keepFocus } from '../components/focus';
import { h } from '../components/h';
import { CommandIDs } from '../lab/ids';
import { NotificationsPage } from '../notificationspage/notificationspage';

export interface IPages {
  app: JupyterFrontEnd;
  context: IPanelContext;
  labShell: ILabShell | null;
}

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

const Sweeps = chunk(() =>
  import(/* webpackChunkName: "page-sweeps" */ '../sweeppage/sweeppage').then(
    page => page.SweepPage
  )
);

class PageContent extends ReactWidget {
  constructor(
    app: JupyterFrontEnd,
    context: IPanelContext,
    private readonly _command: string
  ) {
    super();
    this._context = { ...context, isShown: () => this.isVisible };
    this._renderers = app.resolveOptionalService(IRenderMimeRegistry);
    this.addClass('gc-JobPage-widget');
    keepFocus(this.node);
  }

  wanted: string | null = null;
  private readonly _context: IPanelContext;
  /** What draws charts, where anything does. */
  private readonly _renderers: Promise<IRenderMimeRegistry | null>;

  render(): React.JSX.Element {
    return (
      <PanelContext.Provider value={this._context}>
        {this._command === CommandIDs.schedules ? (
          <Schedules wanted={this.wanted} />
        ) : this._command === CommandIDs.sweeps ? (
          <Sweeps wanted={this.wanted} renderers={this._renderers} />
        ) : this._command === CommandIDs.notifications ? (
          <NotificationsPage />
        ) : (
          <Pipelines wanted={this.wanted} />
        )}
      </PanelContext.Provider>
    );
  }
}

class PageWidget extends MainAreaWidget<PageContent> {
  constructor(
    app: JupyterFrontEnd,
    context: IPanelContext,
    command: string,
    label: string
  ) {
    super({ content: new PageContent(app, context, command) });
    this.id = command.replace(':', '-');
    this.title.closable = true;
    this.title.icon = gpuIcon;
    this.title.label = label;
  }

  /** Bring the reader to this part of it. */
  want(wanted: string | null): void {
    this.content.wanted = wanted;
    this.content.update();
  }
}

/** Those that were opened, by their command. */
const pages = new Map<string, PageWidget>();

/** Show a page, and in it what is wanted. */
export function openPage(
  options: IPages,
  command: string,
  label: string,
  wanted: unknown
): void {
  const { shell } = options.app;
  const page = pageOf(options, command, label);
  page.want(typeof wanted === 'string' ? wanted : null);
  shell.activateById(page.id);
}

function pageOf(
  { app, context, labShell }: IPages,
  command: string,
  label: string
): PageWidget {
  const known = pages.get(command);
  if (known !== undefined && !known.isDisposed) {
    return known;
  }
  const page = new PageWidget(app, context, command, label);
  pages.set(command, page);
  // Notebook 7 keeps its main area for one document.
  app.shell.add(page, labShell ? 'main' : 'right');
  return page;
}
