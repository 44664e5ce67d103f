/**
 * A run of a cell that another page has begun, as an output area takes it: what the server kept of
 * it, then what the kernel says from now on.
 */
import type { Kernel, KernelMessage } from '@jupyterlab/services';

import type { ICellRun } from './cellruns';

type Request = KernelMessage.IExecuteRequestMsg;
type Reply = KernelMessage.IExecuteReplyMsg;
type Heard = KernelMessage.IIOPubMessage;

/** So long after it is connected a page hears all that its kernel says. */
const SURELY_MS = 3000;
/** A server that is so far behind is not waited for any longer. */
const MOST_TRIES = 40;

/** What the kernel says while the server is asked for what came before. */
export class Listener {
  constructor(
    private readonly _kernel: Kernel.IKernelConnection,
    private readonly _surelyMs = SURELY_MS
  ) {
    _kernel.iopubMessage.connect(this._keep, this);
  }

  /** Once nothing that the kernel says is missed any more. */
  async hears(): Promise<void> {
    await this._connected();
    await new Promise<void>(resolve => {
      this._onFirst = resolve;
      window.setTimeout(resolve, this._heard.length > 0 ? 0 : this._surelyMs);
    });
  }

  private _connected(): Promise<void> {
    const kernel = this._kernel;
    return new Promise(resolve => {
      const look = () => {
        if (kernel.connectionStatus !== 'connecting' || kernel.isDisposed) {
          kernel.connectionStatusChanged.disconnect(look);
          resolve();
        }
      };
      kernel.connectionStatusChanged.connect(look);
      look();
    });
  }

  /** Of this run, in the order in which its kernel said it. */
  of(run: ICellRun): Heard[] {
    return this._heard.filter(message => isOf(message, run));
  }

  /** Whether nothing can lie between what the server has kept of this run and what is heard of it. */
  joins(run: ICellRun): boolean {
    const heard = this.of(run);
    return (
      heard.length === 0 || heard.some(message => isKept(message, run.recent))
    );
  }

  /** What came of this run, and is not in it: the server names the newest of its messages alone. */
  after(run: ICellRun): Heard[] {
    const heard = this.of(run);
    const kept = heard.map(message => isKept(message, run.recent));
    return heard.slice(kept.lastIndexOf(true) + 1);
  }

  stop(): void {
    this._kernel.iopubMessage.disconnect(this._keep, this);
  }

  private _keep(_: unknown, message: Heard): void {
    this._heard.push(message);
    this._onFirst();
  }

  private readonly _heard: Heard[] = [];
  private _onFirst: () => void = () => undefined;
}

/**
 * Runs as the server keeps them, asked for until all that this page has heard of them follows: a server
 * hears its kernel by another connection than a page, and may be behind.
 */
export async function joined(
  listener: Pick<Listener, 'joins'>,
  ask: () => Promise<ICellRun[]>,
  pause: () => Promise<unknown>
): Promise<ICellRun[]> {
  for (let tries = 1; ; tries++) {
    const runs = await ask();
    if (tries === MOST_TRIES || runs.every(run => listener.joins(run))) {
      return runs;
    }
    await pause();
  }
}

/** Waits for the first that a kernel says of runs of one notebook: once for each, until it starts anew. */
export class FirstWords {
  /** Whoever asks again for the same run is told, and nobody before. */
  of(
    kernel: Pick<Kernel.IKernelConnection, 'iopubMessage'>,
    run: ICellRun,
    tell: (first: Heard) => unknown
  ): void {
    this._ends.get(run.id)?.();
    const end = () => {
      kernel.iopubMessage.disconnect(hear);
      this._ends.delete(run.id);
    };
    const hear = (_: unknown, message: Heard) => {
      if (stateIn(message) === 'starting') {
        end();
      } else if (isOf(message, run)) {
        end();
        void tell(message);
      }
    };
    kernel.iopubMessage.connect(hear);
    this._ends.set(run.id, end);
  }

  dispose(): void {
    for (const end of this._ends.values()) {
      end();
    }
  }

  private readonly _ends = new Map<string, () => void>();
}

/** Whether this came right after what was kept then, as far as what is kept now can tell. */
export function follows(
  first: Heard,
  then: ICellRun,
  now: ICellRun | undefined
): boolean {
  const at = now?.recent.indexOf(first.header.msg_id) ?? -1;
  return at >= 0 && now?.recent[at - 1] === then.recent.at(-1);
}

function isOf(message: Heard, run: ICellRun): boolean {
  return (message.parent_header as { msg_id?: string }).msg_id === run.id;
}

function isKept(message: Heard, kept: readonly string[]): boolean {
  return kept.includes(message.header.msg_id);
}

function isNews(message: Heard, run: ICellRun): boolean {
  return isOf(message, run) && !isKept(message, run.recent);
}

/** Show whole what this page has run itself, where it missed some of it; what it hears later follows. */
export function refill(
  own: Pick<Kernel.IShellFuture, 'onIOPub' | 'registerMessageHook'>,
  run: ICellRun,
  since: Heard[]
): void {
  const shown = new Set([
    ...run.recent,
    ...since.map(message => message.header.msg_id)
  ]);
  own.registerMessageHook(message => !shown.has(message.header.msg_id));
  for (const message of [...(run.messages as unknown as Heard[]), ...since]) {
    void own.onIOPub(message);
  }
}

function stateIn(message: Heard): string | null {
  return message.header.msg_type === 'status'
    ? (message as KernelMessage.IStatusMsg).content.execution_state
    : null;
}

/** See the module. An output area shows only what such a future tells it. */
export class FollowedRun implements Kernel.IShellFuture<Request, Reply> {
  constructor(
    private readonly _run: ICellRun,
    private readonly _kernel: Kernel.IKernelConnection | null,
    private readonly _over: (count: number | null) => void
  ) {
    this.msg = { header: { msg_id: _run.id } } as Request;
    this.done = new Promise<Reply>((_, reject) => {
      this._reject = reject;
    });
    // Nobody has to wait for it.
    this.done.catch(() => undefined);
  }

  readonly msg: Request;
  readonly done: Promise<Reply>;
  isDisposed = false;

  onReply: (message: Reply) => void | PromiseLike<void> = () => undefined;
  onIOPub: (message: Heard) => void | PromiseLike<void> = () => undefined;
  onStdin: (message: KernelMessage.IStdinMessage) => void | PromiseLike<void> =
    () => undefined;

  /** Show what there is; what comes from now on follows. */
  begin(since: Heard[]): void {
    for (const message of this._run.messages) {
      void this.onIOPub(message as unknown as Heard);
    }
    if (this._run.state !== 'running') {
      this._end();
      return;
    }
    this._kernel?.iopubMessage.connect(this._hear, this);
    for (const message of since) {
      this._hear(null, message);
    }
  }

  dispose(): void {
    if (!this.isDisposed) {
      this.isDisposed = true;
      this._kernel?.iopubMessage.disconnect(this._hear, this);
      this._reject(new Error('The cell was run anew.'));
    }
  }

  registerMessageHook(): void {
    // Nobody changes what is shown of it.
  }

  removeMessageHook(): void {
    // As above.
  }

  sendInputReply(): void {
    // A kernel asks the page that ran the cell.
  }

  private _hear(_: unknown, message: Heard): void {
    const state = stateIn(message);
    if (state === 'starting') {
      // Another kernel of the same id: this cell is over.
      this._end();
    }
    if (this.isDisposed || !isNews(message, this._run)) {
      return;
    }
    if (message.header.msg_type === 'execute_input') {
      const { content } = message as KernelMessage.IExecuteInputMsg;
      this._count = content.execution_count;
    }
    void this.onIOPub(message);
    if (state === 'idle') {
      this._end();
    }
  }

  private _end(): void {
    this._over(this._count ?? this._run.execution_count);
    this.dispose();
  }

  private _count: number | null = null;
  private _reject: (reason: Error) => void = () => undefined;
}
