/** What the page knows of the server, kept once for all widgets of a tab. No DOM. */
import { Signal } from '@lumino/signaling';

import { type Api, type Connection, told } from '../server/api';
import { ServerClock } from '../server/clock';
import { FollowedJob, IFollowing } from './followed';
import type { IStopped } from '../server/stoppedserver';
import {
  IEvent,
  IJob,
  ILease,
  IPool,
  ITeam,
  IWhoAmI,
  PageMessage,
  SchedulerState,
  ServerMessage
} from '../server/types';
import type { ILostKernel, IWokenKernel, Keeps } from '../server/lostkernels';
import { UsageHistory } from './usage';

/** Between two questions to the hub. */
const LOOK_MS = 1000;

/** What changed. */
export type Topic = 'status' | 'usage' | 'lease' | 'jobs' | 'teams' | 'kernels';

export class Model implements IFollowing {
  constructor(
    readonly api: Api,
    readonly attemptLine: (attempt: number) => string,
    readonly clock = new ServerClock(),
    private readonly _localNow: () => number = Date.now
  ) {
    api.message.connect(this._onMessage, this);
    api.connectedChanged.connect(this._onConnected, this);
  }

  readonly changed = new Signal<this, Topic>(this);

  /** Something happened that people may want to hear of. */
  readonly happened = new Signal<this, IEvent>(this);

  /** The server refused something that no dialog waits for. */
  readonly failed = new Signal<this, string>(this);

  get connection(): Connection {
    if (this._scheduler === null) {
      return this.api.retries > 1 ? 'lost' : 'connecting';
    }
    return this.api.isConnected ? this._scheduler : 'lost';
  }

  /** Why the scheduler cannot be reached, as the server tells it. */
  trouble: string | null = null;

  /** How old what is shown is, in ms, once it is no longer kept up to date. */
  get dataAgeMs(): number | null {
    return this._dataAtMs === null ? null : this._localNow() - this._dataAtMs;
  }

  /** The server's time of what is shown: it stands still while that is not kept up to date. */
  get shownMs(): number {
    const behind = this.connection === 'ok' ? 0 : (this.dataAgeMs ?? 0);
    return this.clock.now() - behind;
  }

  /** For how long it had been idle, in ms, where the server is gone because of that. */
  get returnedAfterMs(): number | null {
    const idle = this.lease?.idle;
    return this.connection === 'lost' &&
      this.lease?.state === 'warned' &&
      idle?.idle_since_ms != null &&
      idle.returns_ms != null &&
      this.clock.now() >= idle.returns_ms
      ? idle.returns_ms - idle.idle_since_ms
      : null;
  }

  /** Why an admin stopped the server that is gone, in their words. */
  get stopped(): string | null {
    return this.connection === 'lost' ? this._stopped : null;
  }

  /** What became of the server, once the hub has told; null while it runs, or nothing is known. */
  get gone(): IStopped | null {
    return this.connection === 'lost' ? this._gone : null;
  }

  /** It is on its way down and up again, which a dialog says. */
  isRestarting = false;

  /** Ask the hub for so long, until it has told or the server is back; whether it has told. */
  async learnsStop(patienceMs: number): Promise<boolean> {
    for (let waited = 0; waited <= patienceMs; waited += LOOK_MS) {
      await this._askHub();
      if (this.gone !== null || this.connection === 'ok') {
        break;
      }
      await new Promise(resolve => setTimeout(resolve, LOOK_MS));
    }
    return this.gone !== null;
  }

  readonly usage = new UsageHistory();
  whoami: IWhoAmI | null = null;
  lease: ILease | null = null;
  sharedAccount = false;

  /** What a stop keeps of kernels; nothing until the server has said so. */
  keeps: Keeps = 'nothing';

  /** Whether its kernels can be saved now, and the pool allows it. */
  get canHibernate(): boolean {
    const idle = this.lease?.idle;
    return (
      Boolean(this.lease?.slice) &&
      idle?.keeps === 'kernels' &&
      Boolean(idle.on_idle_allowed?.includes('hibernate'))
    );
  }
  /** Null until they came for the first time. */
  jobs: readonly IJob[] | null = null;
  teams: readonly ITeam[] | null = null;
  pools: readonly IPool[] = [];
  /** Notebooks say it until somebody has closed it. */
  lostKernels: readonly ILostKernel[] = [];
  wokenKernels: readonly IWokenKernel[] = [];
  timeLimits: readonly (number | null)[] = [null];

  /** A simulated GPU is said to be one wherever anything of it shows. */
  get isSimulated(): boolean {
    const slice = this.lease?.slice;
    return slice?.simulated ?? this.usage.last?.simulated ?? false;
  }

  get myTeams(): readonly ITeam[] {
    const mine = new Set(this.whoami?.teams ?? []);
    return (this.teams ?? []).filter(team => team.mine || mine.has(team.name));
  }

  gpuKind(job: IJob): string | null {
    const name = job.pool ?? job.pools[0];
    return this.pools.find(pool => pool.name === name)?.gpu_kind ?? null;
  }

  /** Look at a job closely; dispose of the answer to look away. */
  follow(id: string): FollowedJob {
    const known = this.jobs?.find(job => job.id === id) ?? null;
    const followed = new FollowedJob(id, this, known);
    this._followed.add(followed);
    return followed;
  }

  /** Only the last page that looks at a job ends its stream. */
  send(message: PageMessage): boolean {
    if (message.type === 'unfollow') {
      const lookers = [...this._followed].filter(f => f.id === message.job);
      if (lookers.length > 1) {
        return false;
      }
    }
    return this.api.send(message);
  }

  release(job: FollowedJob): void {
    this._followed.delete(job);
  }

  /** A submitted job came back. News of it that were faster know more: they stay. */
  add(job: IJob): void {
    if (!(this.jobs ?? []).some(each => each.id === job.id)) {
      this.take(job);
    }
  }

  /** A changed job came back from an action, unless news of a later state were faster. */
  take(job: IJob): void {
    const jobs = this.jobs ?? [];
    const old = jobs.find(each => each.id === job.id);
    if (old && old.since_ms > job.since_ms) {
      return;
    }
    const known = old !== undefined;
    this.jobs = known
      ? jobs.map(each => (each.id === job.id ? job : each))
      : [job, ...jobs];
    for (const followed of this._followed) {
      if (followed.id === job.id) {
        followed.update(job);
      }
    }
    this.changed.emit('jobs');
  }

  setLease(lease: ILease | null): void {
    if (lease?.slice?.slice_id !== this.lease?.slice?.slice_id) {
      this.usage.clear();
    }
    if (lease?.id !== this.lease?.id) {
      this._stopped = null;
    }
    this.lease = lease;
    this.changed.emit('lease');
  }

  /** It was read; the server tells every page. */
  closeLostKernel(id: string): void {
    this.api.closeLostKernel(id).catch((error: unknown) => {
      this.failed.emit(told(error));
    });
  }

  private _onConnected(_: Api, connected: boolean): void {
    if (connected) {
      for (const followed of this._followed) {
        followed.follow();
      }
    } else {
      this._markAge();
    }
    if (connected) {
      this._gone = null;
    }
    this.api.isStopped =
      (this.gone ?? this.stopped ?? this.returnedAfterMs) !== null;
    this.changed.emit('status');
    void this._askHub();
  }

  private async _askHub(): Promise<void> {
    if (
      this.connection !== 'lost' ||
      this._gone !== null ||
      this.isRestarting
    ) {
      return;
    }
    const gone = await this.api.stopped();
    if (gone !== null && this.gone === null && !this.api.isConnected) {
      this._gone = gone;
      this.api.isStopped = true;
      this.changed.emit('status');
    }
  }

  private _onMessage(_: Api, message: ServerMessage): void {
    for (const followed of this._followed) {
      followed.handle(message);
    }
    switch (message.type) {
      case 'hello':
        this._onHello(message);
        break;
      case 'usage':
        this.usage.add(message.state, message.samples);
        this.changed.emit('usage');
        break;
      case 'lease':
        this.setLease(message.lease);
        break;
      case 'jobs':
        this.jobs = message.jobs;
        this.changed.emit('jobs');
        break;
      case 'teams':
        this.teams = message.teams;
        this.changed.emit('teams');
        break;
      case 'kernels':
        this.lostKernels = message.lost;
        this.wokenKernels = message.woken;
        this.changed.emit('kernels');
        break;
      case 'events':
        for (const event of message.events) {
          // The last word of a server that is gone a second later.
          if (
            event.kind === 'stop-announced' &&
            event.data?.why === 'reclaimed' &&
            event.workload_id === this.lease?.id
          ) {
            this._stopped = event.text;
          }
          this.happened.emit(event);
        }
        break;
      case 'error':
        this.failed.emit(message.message);
        break;
      case 'log':
      case 'curve':
      case 'job':
        break;
    }
  }

  private _onHello(hello: Extract<ServerMessage, { type: 'hello' }>): void {
    if (hello.now_ms !== undefined) {
      this.clock.set(hello.now_ms);
    }
    if (hello.scheduler !== 'ok') {
      this._markAge();
    }
    this._scheduler = hello.scheduler;
    this.trouble = hello.message ?? null;
    this.timeLimits = hello.time_limits_s ?? this.timeLimits;
    this.sharedAccount = hello.shared_account;
    this.keeps = hello.keeps ?? 'nothing';
    if (hello.scheduler === 'ok') {
      this.whoami = hello.whoami;
      this._isCurrent = true;
      void this._loadPools();
    }
    if (hello.lease !== null || hello.scheduler === 'ok') {
      this.setLease(hello.lease);
    }
    this.changed.emit('status');
  }

  private async _loadPools(): Promise<void> {
    try {
      const list = await this.api.pools();
      this.pools = list.pools;
      this.clock.set(list.now_ms);
      this.changed.emit('status');
    } catch {
      // Pools only name the GPU kind; the next hello asks again.
    }
  }

  /** Until this moment everything shown was current. */
  private _markAge(): void {
    if (this._scheduler === 'ok' && this._isCurrent) {
      this._dataAtMs = this._localNow();
    }
    this._isCurrent = false;
  }

  private _scheduler: SchedulerState | null = null;
  private _dataAtMs: number | null = null;
  private _stopped: string | null = null;
  private _gone: IStopped | null = null;
  private _isCurrent = false;
  private readonly _followed = new Set<FollowedJob>();
}
