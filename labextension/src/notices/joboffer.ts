/** *Make it a job?*: said once of a notebook that keeps its GPU busy for long, and taken back when it is not true any more. */
import { Notification } from '@jupyterlab/apputils';
import type { CommandRegistry } from '@lumino/commands';

import { CommandIDs } from '../lab/ids';
import type { Model } from '../model/model';
import { told } from '../server/api';
import type { IEvent, IJobOffer } from '../server/types';
import { longEnough } from '../submission/plan';
import { AUTO } from '../submission/request';
import type { TrainModel } from '../submission/train';
import { clock } from '../text/format';
import { fileName } from '../text/visible';
import type { Messages } from '../text/messages';

/** What tells people of jobs, and whether they want it. */
export interface ITells {
  readonly model: Model;
  readonly msg: Messages;
  readonly commands: CommandRegistry;
  readonly train: TrainModel;
  readonly tellsJobs: boolean;
}

/** Lab cuts what is longer than 140 characters: a long name gives way. */
const NAME_CHARACTERS = 36;
const DAY_MS = 24 * 3600 * 1000;

export function offerMessages({ trans, gpuCount }: Messages) {
  /** A time of day, and the day where it is not today. */
  const moment = (ms: number, nowMs: number): string => {
    const day = (at: number) => new Date(at).setHours(0, 0, 0, 0);
    const days = Math.round((day(ms) - day(nowMs)) / DAY_MS);
    if (days === 0) {
      return clock(ms);
    }
    const date = new Date(ms).toLocaleDateString(undefined, {
      day: 'numeric',
      month: 'short'
    });
    return days === 1
      ? trans.__('tomorrow %1', clock(ms))
      : `${date} ${clock(ms)}`;
  };
  return {
    offer(offer: IJobOffer, nowMs: number): string {
      const name = shortened(fileName(offer.path));
      const { gpus, done_ms, here_ms, times } = offer;
      const on = gpuCount(1000 * gpus);
      if (done_ms === undefined || here_ms === undefined) {
        return trans.__(
          'Make %1 a job? It could start on %2 now, from its first cell, and goes on without your server.',
          name,
          on
        );
      }
      return trans.__(
        'Make %1 a job? On %2, if %3 times as fast there, done by about %4 instead of %5.',
        name,
        on,
        Number(times?.toFixed(1)),
        moment(done_ms, nowMs),
        moment(here_ms, nowMs)
      );
    },
    make: () => trans.__('Make It a Job…'),
    no: () => trans.__('No Thanks'),
    noCaption: () => trans.__('It is not asked again for this notebook'),
    keeps: (path: string) =>
      trans.__(
        '%1 goes on here, and keeps its GPU, until you stop it. The job runs a copy of the saved notebook from its first cell.',
        shortened(fileName(path))
      )
  };
}

function shortened(name: string): string {
  return name.length <= NAME_CHARACTERS
    ? name
    : `${name.slice(0, NAME_CHARACTERS - 1)}…`;
}

export class JobOffers {
  constructor(private readonly _tells: ITells) {}

  /** Whether it was about an offer. */
  onEvent({ kind, data }: IEvent): boolean {
    if (kind !== 'job-offer' && kind !== 'job-offer-over') {
      return false;
    }
    const offer = data as unknown as IJobOffer;
    if (kind === 'job-offer-over') {
      Notification.dismiss(this._shown);
    } else if (!offer.is_new) {
      // Who has closed it does not see it again.
      Notification.update({ id: this._shown, message: this._text(offer) });
    } else if (this._tells.tellsJobs) {
      this._shown = Notification.emit(this._text(offer), 'info', {
        autoClose: false,
        actions: this._actions(offer)
      });
    }
    return true;
  }

  private get _words() {
    return offerMessages(this._tells.msg);
  }

  private _text(offer: IJobOffer): string {
    return this._words.offer(offer, this._tells.model.clock.now());
  }

  private _actions(offer: IJobOffer): Notification.IAction[] {
    return [
      {
        label: this._words.make(),
        displayType: 'accent',
        callback: () => void this._take(offer)
      },
      {
        label: this._words.no(),
        caption: this._words.noCaption(),
        callback: () => void this._refuse(offer)
      }
    ];
  }

  /** The form, filled in: the reader submits it. */
  private async _take(offer: IJobOffer): Promise<void> {
    const { path, gpus, joins, done_ms, times } = offer;
    const { commands, model, train } = this._tells;
    await commands.execute(CommandIDs.trainFile, { path });
    const workers = joins ? gpus : 1;
    // Also where it turns out to be no faster than here.
    const leastS = done_ms
      ? ((done_ms - model.clock.now()) * (times ?? 1)) / 1000
      : 0;
    train.resize(joins ? 1000 : 1000 * gpus);
    train.update({
      workers,
      minWorkers: workers,
      maxWorkers: workers,
      launcher: AUTO,
      maxRunS: longEnough(train.form.maxRunS, leastS, model.timeLimits)
    });
    Notification.info(this._words.keeps(path), { autoClose: false });
  }

  private async _refuse({ path }: IJobOffer): Promise<void> {
    try {
      const { api } = this._tells.model;
      await api.request('POST', ['no-job-offer'], { path });
    } catch (error) {
      this._tells.model.failed.emit(told(error));
    }
  }

  /** The notification; Lab knows none without a name. */
  private _shown = '';
}
