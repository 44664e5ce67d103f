/** Pages of the main area; this comes when the first is opened, and what draws each with it. */
import { MainAreaWidget } from '@jupyterlab/apputils';
import { ReactWidget } from '@jupyterlab/ui-components';
import type * as React from 'react';

import { gpuIcon } from '../lab/icons';
import { chunk } from '../components/chunk';
import { IPanelContext, PanelContext } from '../components/context';
import { keepFocus } from '../components/focus';
import { h } from '../components/h';
import { CommandIDs } from '../lab/ids';

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

class PageContent extends ReactWidget {
  constructor(
    private readonly _context: IPanelContext,
    private readonly _command: string
  ) {
    super();
    this.addClass('gc-JobPage-widget');
    keepFocus(this.node);
  }

  wanted: string | null = null;

  render(): React.JSX.Element {
    return (
      <PanelContext.Provider value={this._context}>
        {this._command === CommandIDs.schedules ? (
          <Schedules wanted={this.wanted} />
        ) : (
          <Pipelines wanted={this.wanted} />
        )}
      </PanelContext.Provider>
    );
  }
}

export class PageWidget extends MainAreaWidget<PageContent> {
  constructor(context: IPanelContext, command: string, label: string) {
    super({ content: new PageContent(context, command) });
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
