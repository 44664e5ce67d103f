/** Notifications of what happened to jobs; of a sweep, map or pipeline that, and not of each of its jobs. */
import { Notification } from '@jupyterlab/apputils';
import type { CommandRegistry } from '@lumino/commands';

import { CommandIDs } from '../lab/ids';
import {
  currentAttempt,
  hasStopped,
  isForOthers,
  wayWords
} from '../model/jobs';
import type { IEvent, IJob, IStop } from '../server/types';
import { type ITells, JobOffers } from './joboffer';
import { TOAST_MS } from './notices';

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

/** Lab cuts what is longer, wherever that falls. */
const TOAST_CHARACTERS = 140;

/** What its owner began, and that it is over. */
const OF_PARENT = /^(sweep|map|pipeline)-(started|run|over)$/;

/** Each run of a schedule stands for itself. */
function isOneOfMany({ part_of }: IJob): boolean {
  return part_of != null && part_of.kind !== 'schedule';
}

export class JobToasts {
  constructor(private readonly _tells: ITells) {
    this._offers = new JobOffers(_tells);
  }

  onJobs(): void {
    this._tellStops();
    this._dropStarts();
  }

  private _mine(id: string): IJob | undefined {
    const job = this._tells.model.jobs?.find(each => each.id === id);
    return job?.owner === this._tells.model.whoami?.name ? job : undefined;
  }

  /** A stop is told from the job itself: it knows how much time is left. */
  private _tellStops(): void {
    const stops = new Map<string, string>();
    for (const { id } of this._tells.model.jobs ?? []) {
      const job = this._mine(id);
      const attempt = job && currentAttempt(job);
      const stop = attempt?.stop;
      if (!job || !stop || !isForOthers(stop) || isOneOfMany(job)) {
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
      `${job.name}: ${this._tells.msg.stopAt(stop.term_ms, stop.text, way)}`;
    const whole = told(wayWords(job));
    return whole.length <= TOAST_CHARACTERS
      ? whole
      : told(this._tells.msg.wayOnPage());
  }

  onEvent(event: IEvent): void {
    if (this._offers.onEvent(event)) {
      return;
    }
    const [, parent, change] = OF_PARENT.exec(event.kind) ?? [];
    if (parent && event.data?.owner === this._tells.model.whoami?.name) {
      const { ref, failed, stopped } = event.data ?? {};
      const ended = stopped ? 'info' : 'success';
      const tone = failed ? 'warning' : ended;
      // It begins with what it is: "sweep", "map", "pipeline".
      const text = event.text.charAt(0).toUpperCase() + event.text.slice(1);
      this._tell(text, change === 'over' ? tone : 'info', [
        parent === 'pipeline' ? CommandIDs.pipelines : CommandIDs.sweeps,
        { wanted: ref ?? null }
      ]);
      return;
    }
    const tone = TOLD[event.kind];
    const job = this._mine(event.workload_id ?? '');
    if (
      !tone ||
      !job ||
      (isOneOfMany(job) && !this._isFirstFailure(event, job))
    ) {
      return;
    }
    const notice = this._tellJob(event.text, tone, job.id);
    if (event.kind === 'started') {
      this._starts.set(job.id, notice);
    }
  }

  /** Of all jobs of its parent: the others are on the parent's page. */
  private _isFirstFailure({ kind }: IEvent, { id, part_of }: IJob): boolean {
    const parent = part_of?.id ?? '';
    if (kind !== 'failed' || this._failing.has(parent)) {
      return false;
    }
    this._failing.add(parent);
    return !this._tells.model.jobs?.some(
      each =>
        each.part_of?.id === parent && each.state === 'failed' && each.id !== id
    );
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

  private _tellJob(
    text: string,
    tone: Notification.TypeOptions,
    job: string
  ): string {
    return this._tell(text, tone, [CommandIDs.openJob, { job }]);
  }

  /** The id of the notification; empty where people want none. */
  private _tell(
    text: string,
    tone: Notification.TypeOptions,
    opens: Parameters<CommandRegistry['execute']>
  ): string {
    return this._tells.tellsJobs
      ? Notification.emit(text, tone, {
          autoClose: TOAST_MS,
          actions: [
            {
              label: this._tells.msg.trans.__('Open'),
              callback: () => {
                void this._tells.commands.execute(...opens);
              }
            }
          ]
        })
      : '';
  }

  private readonly _offers: JobOffers;
  /** Notifications of announced stops, by attempt. */
  private _stops = new Map<string, string>();
  /** Notifications that a job runs, by job. */
  private readonly _starts = new Map<string, string>();
  /** Parents of which a failure was told, or stood there before. */
  private readonly _failing = new Set<string>();
}
