/** One job that a page looks at closely: full view, log and curve. No DOM. */
import { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';

import type { IJobUse, ITracked } from '../server/jobuse';
import type { IPlanRecord } from '../server/plans';
import { currentAttempt, hasRequest, workersOf } from './jobs';
import { LogBuffer, MOST_IN_ONE } from './log';
import {
  CurveSource,
  ICurvePoint,
  IJob,
  PageMessage,
  Rank,
  ServerMessage
} from '../server/types';

export interface IFollowing {
  send(message: PageMessage): boolean;
  release(job: FollowedJob): void;
  attemptLine(attempt: number): string;
}

export class FollowedJob implements IDisposable {
  constructor(
    readonly id: string,
    private readonly _parent: IFollowing,
    public job: IJob | null
  ) {
    this.follow(job ? firstRank(job) : 0);
  }

  /** The worker whose log is followed; null = all of them. */
  rank: Rank = 0;
  points: readonly ICurvePoint[] = [];
  source: CurveSource = 'report';
  /** All that the curve can be read of. */
  sources: readonly CurveSource[] = [];
  use: IJobUse | null = null;
  plan?: IPlanRecord;
  tracked?: ITracked;
  readonly log = new LogBuffer();

  readonly changed = new Signal<this, void>(this);
  isDisposed = false;

  /** Ask for the stream from its start: at first, after a reconnect, and for another worker. */
  follow(rank = this.rank): void {
    this.rank = rank;
    this.log.clear();
    this._ended.clear();
    this._parent.send({ type: 'follow', job: this.id, rank });
    this.changed.emit();
  }

  /** Take a message if it is about this job. */
  handle(message: ServerMessage): void {
    const of = 'job' in message ? message.job : this.id;
    if ((typeof of === 'string' ? of : of.id) !== this.id) {
      return;
    }
    switch (message.type) {
      case 'job':
        this.job = message.job;
        break;
      case 'jobs': {
        const job = message.jobs.find(each => each.id === this.id);
        if (!job) {
          return;
        }
        this.job = merge(this.job, job);
        break;
      }
      case 'log':
        if (this.rank !== null && message.rank !== this.rank) {
          return;
        }
        this._takeLog(message);
        break;
      case 'curve':
        // All of it, each time: a step that was done again stands once.
        this.points = message.points;
        this.source = message.source ?? 'report';
        this.sources = message.sources ?? [];
        break;
      case 'use':
      case 'plan':
      case 'tracked':
        Object.assign(this, { [message.type]: message });
        break;
      default:
        return;
    }
    this.changed.emit();
  }

  /** The answer of an action shows at once, without waiting for the stream. */
  update(job: IJob): void {
    this.job = merge(this.job, job);
    this.changed.emit();
  }

  private _takeLog(message: Extract<ServerMessage, { type: 'log' }>): void {
    const { attempt, rank, lines, end } = message;
    if (end) {
      this._ended.add(rank);
    } else {
      this._ended.delete(rank);
    }
    const isOne = this.rank !== null;
    this.log.append(
      attempt,
      lines,
      end &&
        (isOne ||
          this._ended.size >=
            (this.job ? workersOf(this.job, currentAttempt(this.job)) : 1)),
      this._parent.attemptLine,
      isOne ? undefined : rank
    );
  }

  /** Workers whose log has come to its end. */
  private readonly _ended = new Set<number>();

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this.isDisposed = true;
    this._parent.send({ type: 'unfollow', job: this.id });
    this._parent.release(this);
    Signal.clearData(this);
  }
}

/** Lists may leave out some of the request and the attempts; what is known of them is kept. */
function merge(old: IJob | null, job: IJob): IJob {
  return {
    ...job,
    ...(old && hasRequest(old) && !hasRequest(job)
      ? { request: old.request, request_lacks: [] }
      : {}),
    attempts:
      job.attempts.length >= (old?.attempts.length ?? 0)
        ? job.attempts
        : (old?.attempts ?? [])
  };
}

/** Of several workers that failed the last lines of each say more than all lines of the first. */
function firstRank(job: IJob): Rank {
  const isSeveral = job.workers > 1 && job.workers <= MOST_IN_ONE;
  return isSeveral && job.state === 'failed' ? null : 0;
}
