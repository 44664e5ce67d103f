/** The sidebar as a Lumino widget; while it is hidden it draws nothing and no timer runs. */
import { ReactWidget } from '@jupyterlab/ui-components';
import { Message } from '@lumino/messaging';
import type * as React from 'react';

import { h } from '../components/h';

import { IPanelContext, PanelContext } from '../components/context';
import { keepFocus } from '../components/focus';
import { gpuIcon } from '../lab/icons';
import { PANEL_ID } from '../lab/ids';

export class GpuPanel extends ReactWidget {
  constructor(private _context: IPanelContext) {
    super();
    const { trans } = _context.msg;
    this.id = PANEL_ID;
    this.addClass('gc-Panel');
    this.addClass('jp-SidePanel');
    this.title.icon = gpuIcon;
    this.title.caption = trans.__('GPU Commons');
    this.node.tabIndex = -1;
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('GPU Commons'));
    keepFocus(this.node);
  }

  setFinishedShown(finishedShown: number): void {
    this._context = { ...this._context, finishedShown };
    this.update();
  }

  /** Whoever asks for the panel goes on in it: the next Tab is its first control. */
  takeFocus(): void {
    if (!this.node.contains(document.activeElement)) {
      this.node.focus();
    }
  }

  render(): React.JSX.Element | null {
    const Panel = this._Panel;
    return this.isVisible && Panel ? (
      <PanelContext.Provider value={this._context}>
        <Panel />
      </PanelContext.Provider>
    ) : null;
  }

  protected onAfterShow(message: Message): void {
    super.onAfterShow(message);
    void this._draw();
  }

  protected onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this.update();
  }

  /** What draws the panel is fetched when it is first shown. */
  private async _draw(): Promise<void> {
    this._Panel ??= (
      await import(/* webpackChunkName: "panel" */ './panel')
    ).Panel;
    this.update();
  }

  private _Panel: (() => React.JSX.Element) | null = null;
}
