/** A page of the main area that shows a component, which usually comes as a chunk. */
import { MainAreaWidget } from '@jupyterlab/apputils';
import { ReactWidget } from '@jupyterlab/ui-components';
import type * as React from 'react';

import { gpuIcon } from '../lab/icons';
import { IPanelContext, PanelContext } from './context';
import { keepFocus } from './focus';
import { h } from './h';

export interface IPage {
  id: string;
  label: string;
  /** Draws it; what is wanted may change while it is open. */
  draw: (wanted: string | null) => React.JSX.Element;
}

class PageContent extends ReactWidget {
  constructor(
    private readonly _context: IPanelContext,
    private readonly _page: IPage
  ) {
    super();
    this.addClass('gc-JobPage-widget');
    keepFocus(this.node);
  }

  wanted: string | null = null;

  render(): React.JSX.Element {
    return (
      <PanelContext.Provider value={this._context}>
        {this._page.draw(this.wanted)}
      </PanelContext.Provider>
    );
  }
}

export class PageWidget extends MainAreaWidget<PageContent> {
  constructor(context: IPanelContext, page: IPage) {
    super({ content: new PageContent(context, page) });
    this.id = page.id;
    this.title.closable = true;
    this.title.icon = gpuIcon;
    this.title.label = page.label;
  }

  /** Bring the reader to this part of it. */
  want(wanted: string | null): void {
    this.content.wanted = wanted;
    this.content.update();
  }
}
