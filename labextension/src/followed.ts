/** One job that a page looks at closely: full view, log and curve. No DOM. */
import { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';

import { hasRequest } from './jobs';
import { LogBuffer } from './log';
import {
  CurveSource,
  ICurvePoint,
  IJob,
  IJobUse,
  PageMessage,
  ServerMessage
} from './tokens';

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
    this.follow();
  }

  rank = 0;
  points: readonly ICurvePoint[] = [];
  source: CurveSource = 'report';
  use: IJobUse | null = null;
  readonly log = new LogBuffer();

  readonly changed = new Signal<this, void>(this);
  isDisposed = false;

  /** Ask for the stream from its start: at first, after a reconnect, and for another worker. */
  follow(rank = this.rank): void {
    this.rank = rank;
    this.log.clear();
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
        if (message.rank !== this.rank) {
          return;
        }
        this.log.append(
          message.attempt,
          message.lines,
          message.end,
          this._parent.attemptLine
        );
        break;
      case 'curve':
        // All of it, each time: a step that was done again stands once.
        this.points = message.points;
        this.source = message.source ?? 'report';
        break;
      case 'use':
        this.use = message;
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
