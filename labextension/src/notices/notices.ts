/** Lab notifications: the idle warning with its actions; what happened to jobs comes when there is any. */
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { CommandRegistry } from '@lumino/commands';

import { CommandIDs } from '../lab/ids';
import { idleNotice, IIdleNotice, KEEP_MINUTES } from '../model/idle';
import type { Messages } from '../text/messages';
import type { Model, Topic } from '../model/model';
import type { IEvent } from '../server/types';
import type { TrainModel } from '../submission/train';
import type { JobToasts } from './jobtoasts';

/** How long a toast stays; it remains in the notification centre. */
export const TOAST_MS = 8000;

export class Notices {
  constructor(
    readonly model: Model,
    readonly msg: Messages,
    readonly commands: CommandRegistry,
    readonly train: TrainModel
  ) {
    model.changed.connect(this._onChanged, this);
    model.happened.connect((_, event) => void this._tellJobs(event));
    model.failed.connect(this._onFailed, this);
  }

  /** Whether people want words of jobs. */
  tellsJobs = true;

  private _onChanged(_: Model, topic: Topic): void {
    if (topic === 'jobs' && this.model.jobs?.length) {
      void this._tellJobs();
    }
    if (topic !== 'lease' && topic !== 'status') {
      return;
    }
    // Nothing can be answered where nobody listens.
    const notice =
      this.model.connection === 'lost'
        ? null
        : idleNotice(this.model.lease, this.msg, this.model.keeps);
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
    const msg = this.msg;
    const run = (command: string) => () => {
      void this.commands.execute(command);
    };
    const keep: Notification.IAction = {
      label: msg.keep(KEEP_MINUTES),
      displayType: 'accent',
      callback: run(CommandIDs.keepGpu)
    };
    const asking = (command: string, label: string): Notification.IAction => ({
      label,
      callback: event => {
        // The question may be answered with no: the warning stays.
        event.preventDefault();
        run(command)();
      }
    });
    return [
      ...(notice.keepsLeft > 0 ? [keep] : []),
      // Three buttons fill a line: the other way to free the GPU is in the panel.
      this.model.canHibernate
        ? asking(CommandIDs.hibernate, msg.hibernate())
        : asking(CommandIDs.dropGpu, msg.dropToCpu()),
      // Only where a notebook is open is there one to turn.
      ...(this.commands.isEnabled(CommandIDs.trainNotebook)
        ? [
            {
              label: msg.turnIntoJob(),
              callback: (event: MouseEvent) => {
                // The form takes a while: the GPU stays meanwhile, or its warning does.
                if (notice.keepsLeft) {
                  keep.callback(event);
                } else {
                  event.preventDefault();
                }
                run(CommandIDs.trainNotebook)();
              }
            }
          ]
        : [])
    ];
  }

  private _dismiss(): void {
    if (this._shownId !== null) {
      Notification.dismiss(this._shownId);
    }
    this._shownId = null;
    this._shownKey = undefined;
  }

  /** Whoever has no job, and is told nothing of one, does not load what tells of them. */
  private async _tellJobs(event?: IEvent): Promise<void> {
    this._toasts ??= import(
      /* webpackChunkName: "page-jobtoasts" */ './jobtoasts'
    ).then(({ JobToasts }) => new JobToasts(this));
    const toasts = await this._toasts;
    if (event) {
      toasts.onEvent(event);
    } else {
      toasts.onJobs();
    }
  }

  private _onFailed(_: Model, message: string): void {
    Notification.error(message, { autoClose: TOAST_MS });
  }

  private _toasts: Promise<JobToasts> | undefined;
  private _shownKey: string | undefined;
  private _shownId: string | null = null;
}

/** Ask in a dialog; whether the answer is yes. */
export async function confirm(
  title: string,
  body: string,
  label: string
): Promise<boolean> {
  const { button } = await showDialog({
    title,
    body,
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label })]
  });
  return button.accept;
}
