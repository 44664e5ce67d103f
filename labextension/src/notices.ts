/** Lab notifications: the idle warning with its actions, and what happened to jobs. */
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { CommandRegistry } from '@lumino/commands';

import { CommandIDs } from './ids';
import { idleNotice, IIdleNotice, KEEP_MINUTES } from './idle';
import type { Messages } from './messages';
import type { Model, Topic } from './model';
import { IEvent } from './tokens';

/** Events worth a word, and how they sound. */
const TOLD: Record<string, Notification.TypeOptions> = {
  running: 'info',
  started: 'info',
  preempting: 'warning',
  stopping: 'warning',
  preempted: 'warning',
  finished: 'success',
  succeeded: 'success',
  failed: 'error'
};

/** How long a toast about a job stays; it remains in the notification centre. */
const TOAST_MS = 8000;

/** `job.running` and `running` are told alike. */
export function toneOf(event: IEvent): Notification.TypeOptions | null {
  const word = event.kind.slice(event.kind.lastIndexOf('.') + 1);
  return event.workload_id ? (TOLD[word] ?? null) : null;
}

export class Notices {
  constructor(
    private readonly _model: Model,
    private readonly _msg: Messages,
    private readonly _commands: CommandRegistry
  ) {
    _model.changed.connect(this._onChanged, this);
    _model.happened.connect(this._onEvent, this);
    _model.failed.connect(this._onFailed, this);
  }

  tellsJobs = true;

  private _onChanged(_: Model, topic: Topic): void {
    if (topic !== 'lease') {
      return;
    }
    const notice = idleNotice(this._model.lease, this._msg);
    if (notice?.key === this._shownKey) {
      return;
    }
    this._dismiss();
    if (notice !== null) {
      this._shownKey = notice.key;
      this._shownId = Notification.emit(notice.text, 'warning', {
        autoClose: false,
        actions: this._actions(notice)
      });
    }
  }

  private _actions(notice: IIdleNotice): Notification.IAction[] {
    const msg = this._msg;
    const run = (command: string) => () => {
      void this._commands.execute(command);
    };
    const keep: Notification.IAction = {
      label: `${msg.keep(KEEP_MINUTES)} (${msg.keepsLeft(notice.keepsLeft)})`,
      displayType: 'accent',
      callback: run(CommandIDs.keepGpu)
    };
    return [
      ...(notice.keepsLeft > 0 ? [keep] : []),
      {
        label: msg.dropToCpu(),
        caption: msg.dropBody(),
        callback: event => {
          // The question may be answered with no: the warning stays.
          event.preventDefault();
          run(CommandIDs.dropGpu)();
        }
      },
      { label: msg.turnIntoJob(), callback: run(CommandIDs.trainNotebook) }
    ];
  }

  private _dismiss(): void {
    if (this._shownId !== null) {
      Notification.dismiss(this._shownId);
    }
    this._shownId = null;
    this._shownKey = undefined;
  }

  private _onEvent(_: Model, event: IEvent): void {
    const tone = toneOf(event);
    const id = event.workload_id;
    const job = this._model.jobs?.find(each => each.id === id);
    const isMine = job?.owner === this._model.whoami?.name;
    if (!this.tellsJobs || tone === null || !id || !isMine) {
      return;
    }
    Notification.emit(event.text, tone, {
      autoClose: TOAST_MS,
      actions: [
        {
          label: this._msg.trans.__('Open'),
          callback: () => {
            void this._commands.execute(CommandIDs.openJob, { job: id });
          }
        }
      ]
    });
  }

  private _onFailed(_: Model, message: string): void {
    Notification.error(message, { autoClose: TOAST_MS });
  }

  private _shownKey: string | undefined;
  private _shownId: string | null = null;
}

/** Ask before variables are lost. */
export async function confirmDrop(msg: Messages): Promise<boolean> {
  const { button } = await showDialog({
    title: msg.dropQuestion(),
    body: msg.dropBody(),
    buttons: [
      Dialog.cancelButton(),
      Dialog.warnButton({ label: msg.restart() })
    ]
  });
  return button.accept;
}
