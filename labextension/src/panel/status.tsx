/** The status bar's item: `GPU ½ 12.6/19.4 GiB`. */
import { ReactWidget } from '@jupyterlab/ui-components';
import { Signal } from '@lumino/signaling';
import type { CommandRegistry } from '@lumino/commands';
import { Menu } from '@lumino/widgets';
import type * as React from 'react';

import { h } from '../components/h';

import { useNow, useTopics } from '../components/context';
import { gib, gpus } from '../text/format';
import { CommandIDs } from '../lab/ids';
import type { Messages } from '../text/messages';
import type { Model, Topic } from '../model/model';

const TOPICS: readonly Topic[] = ['usage', 'lease', 'status'];

/** The text of the item; null where there is no GPU to speak of. */
export function statusText(model: Model, msg: Messages): string | null {
  if (model.gone !== null) {
    return msg.serverStopped();
  }
  if (model.lease?.parked_ms) {
    // Its agent counts on, and there is no GPU to count.
    return msg.trans.__('Parked');
  }
  const slice = model.lease?.slice;
  const last = model.usage.state === 'ok' ? model.usage.last : null;
  if ((!slice && !last) || model.returnedAfterMs !== null) {
    return null;
  }
  const share = slice ? gpus(slice.milli_gpu) : '';
  const used = last?.memory_used_mib;
  const memory =
    last && used != null
      ? msg.trans.__('%1/%2 GiB', gib(used), gib(last.memory_limit_mib))
      : msg.noGpuData();
  return msg.trans.__('GPU %1 %2', share, memory).replace('  ', ' ');
}

export class StatusItem extends ReactWidget {
  constructor(
    private readonly _model: Model,
    private readonly _msg: Messages,
    private readonly _commands: CommandRegistry
  ) {
    super();
    this.addClass('gc-Status');
    _model.changed.connect(this._onChanged, this);
  }

  get isActive(): boolean {
    return this._isEnabled && statusText(this._model, this._msg) !== null;
  }

  readonly activeChanged = new Signal<this, void>(this);

  setEnabled(enabled: boolean): void {
    this._isEnabled = enabled;
    this.activeChanged.emit();
  }

  render(): React.JSX.Element {
    return (
      <Item model={this._model} msg={this._msg} commands={this._commands} />
    );
  }

  private _onChanged(): void {
    if (this.isActive !== this._wasActive) {
      this._wasActive = this.isActive;
      this.activeChanged.emit();
    }
  }

  private _isEnabled = true;
  private _wasActive = false;
}

function Item(props: {
  model: Model;
  msg: Messages;
  commands: CommandRegistry;
}): React.JSX.Element {
  const { model, msg, commands } = props;
  useTopics(model, TOPICS);
  const now = useNow(model);
  const { lease, gone } = model;
  const returns = lease?.state === 'warned' ? lease.idle?.returns_ms : null;
  const isWarned = returns != null && model.connection === 'ok';
  const left = isWarned ? ` · ${msg.returnedIn(returns - now)}` : '';
  return (
    <button
      type="button"
      className={isWarned || gone ? 'gc-Status-item gc-Warn' : 'gc-Status-item'}
      title={
        gone ? msg.stoppedTitle(gone) : msg.trans.__('Your slice of a GPU')
      }
      aria-haspopup={isWarned ? 'menu' : undefined}
      onClick={event => {
        if (gone) {
          void commands.execute(CommandIDs.startAgain);
        } else if (isWarned) {
          openActions(commands, event.currentTarget);
        } else {
          void commands.execute(CommandIDs.showPanel);
        }
      }}
    >
      {statusText(model, msg)}
      {left}
      {model.isSimulated && !gone ? ` · ${msg.trans.__('simulated')}` : ''}
    </button>
  );
}

/** What can be done while the countdown runs, as a menu above the item. */
function openActions(commands: CommandRegistry, item: HTMLElement): void {
  const menu = new Menu({ commands });
  for (const command of [
    CommandIDs.keepGpu,
    CommandIDs.hibernate,
    CommandIDs.dropGpu,
    CommandIDs.trainNotebook,
    CommandIDs.showPanel
  ]) {
    menu.addItem({ command });
  }
  menu.aboutToClose.connect(() => {
    // It closes before it runs what was chosen.
    requestAnimationFrame(() => {
      menu.dispose();
    });
  });
  const { left, top } = item.getBoundingClientRect();
  menu.open(left, top);
}
