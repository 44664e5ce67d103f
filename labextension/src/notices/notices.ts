/** Lab notifications: the idle warning with its actions, and what happened to jobs. */
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { CommandRegistry } from '@lumino/commands';

import { CommandIDs } from '../lab/ids';
import { idleNotice, IIdleNotice, KEEP_MINUTES } from '../model/idle';
import {
  currentAttempt,
  hasStopped,
  isForOthers,
  wayWords
} from '../model/jobs';
import type { Messages } from '../text/messages';
import type { Model, Topic } from '../model/model';
import type { Keeps } from '../server/lostkernels';
import { IEvent, IJob, IStop } from '../server/tokens';

/** Events worth a word, and how they sound. */
const TOLD: Record<string, Notification.TypeOptions> = {
  started: 'info',
  spared: 'info',
  evicted: 'warning',
  moved: 'info',
  lost: 'warning',
  succeeded: 'success',
  failed: 'error'
};

/** How long a toast about a job stays; it remains in the notification centre. */
const TOAST_MS = 8000;

/** Lab cuts what is longer, wherever that falls. */
const TOAST_CHARACTERS = 140;

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
    if (topic === 'jobs') {
      this._tellStops();
      this._dropStarts();
    }
    if (topic !== 'lease' && topic !== 'status') {
      return;
    }
    // Nothing can be answered where nobody listens.
    const notice =
      this._model.connection === 'lost'
        ? null
        : idleNotice(this._model.lease, this._msg, this._model.keeps);
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
      label: msg.keep(KEEP_MINUTES),
      displayType: 'accent',
      callback: run(CommandIDs.keepGpu)
    };
    const asking = (
      command: string,
      label: string,
      caption: string
    ): Notification.IAction => ({
      label,
      caption,
      callback: event => {
        // The question may be answered with no: the warning stays.
        event.preventDefault();
        run(command)();
      }
    });
    return [
      ...(notice.keepsLeft > 0 ? [keep] : []),
      // Three buttons fill a line: the other way to free the GPU is in the panel.
      this._model.canHibernate
        ? asking(CommandIDs.hibernate, msg.hibernate(), msg.hibernateBody())
        : asking(
            CommandIDs.dropGpu,
            msg.dropToCpu(),
            msg.dropBody(this._model.keeps)
          ),
      // Only where a notebook is open is there one to turn.
      ...(this._commands.isEnabled(CommandIDs.trainNotebook)
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

  private _mine(id: string): IJob | undefined {
    const job = this._model.jobs?.find(each => each.id === id);
    return job?.owner === this._model.whoami?.name ? job : undefined;
  }

  /** A stop is told from the job itself: it knows how much time is left. */
  private _tellStops(): void {
    const stops = new Map<string, string>();
    for (const { id } of this._model.jobs ?? []) {
      const job = this._mine(id);
      const attempt = job && currentAttempt(job);
      const stop = attempt?.stop;
      if (!job || !stop || !isForOthers(stop)) {
        continue;
      }
      const known = this._stops.get(attempt.id);
      stops.set(
        attempt.id,
        known ?? this._tellJob(this._stopWords(job, stop), 'warning', id)
      );
    }
    for (const [attempt, notice] of this._stops) {
      if (!stops.has(attempt)) {
        Notification.dismiss(notice);
      }
    }
    this._stops = stops;
  }

  /** The stop and how the job goes on: whole where it fits, and else where to read it. */
  private _stopWords(job: IJob, stop: IStop): string {
    const told = (way: string) =>
      `${job.name}: ${this._msg.stopAt(stop.kill_ms, stop.text, way)}`;
    const whole = told(wayWords(job));
    return whole.length <= TOAST_CHARACTERS
      ? whole
      : told(this._msg.wayOnPage());
  }

  private _onEvent(_: Model, event: IEvent): void {
    const tone = TOLD[event.kind];
    const id = event.workload_id;
    if (tone && id && this._mine(id)) {
      const notice = this._tellJob(event.text, tone, id);
      if (event.kind === 'started') {
        this._starts.set(id, notice);
      }
    }
  }

  /** "… runs" is true as long as it does. */
  private _dropStarts(): void {
    for (const [id, notice] of this._starts) {
      const job = this._mine(id);
      if (job && hasStopped(job)) {
        Notification.dismiss(notice);
        this._starts.delete(id);
      }
    }
  }

  /** The id of the notification; empty where people want none. */
  private _tellJob(
    text: string,
    tone: Notification.TypeOptions,
    job: string
  ): string {
    return this.tellsJobs
      ? Notification.emit(text, tone, {
          autoClose: TOAST_MS,
          actions: [
            {
              label: this._msg.trans.__('Open'),
              callback: () => {
                void this._commands.execute(CommandIDs.openJob, { job });
              }
            }
          ]
        })
      : '';
  }

  private _onFailed(_: Model, message: string): void {
    Notification.error(message, { autoClose: TOAST_MS });
  }

  /** Notifications of announced stops, by attempt. */
  private _stops = new Map<string, string>();
  /** Notifications that a job runs, by job. */
  private readonly _starts = new Map<string, string>();
  private _shownKey: string | undefined;
  private _shownId: string | null = null;
}

/** Ask before variables are lost; of another server it is not known here what it keeps. */
export async function confirmDrop(
  msg: Messages,
  keeps: Keeps | 'unknown' = 'unknown'
): Promise<boolean> {
  return confirm(msg.dropToCpu(), msg.dropBody(keeps), msg.restart());
}

/** Ask before the server is stopped. */
export function confirmHibernate(msg: Messages): Promise<boolean> {
  return confirm(msg.hibernate(), msg.hibernateBody(), msg.hibernate());
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
