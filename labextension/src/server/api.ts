/**
 * The only file that talks to the server: one WebSocket per tab, which everything on the page
 * shares, and the REST proxy.
 */
import type { IEnvironments } from './jobtypes';
import { ServerConnection } from '@jupyterlab/services';
import { UUID } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';

import { visit, withoutLogin } from './login';
import { type IStopped, readStopped } from './stoppedserver';
import type { IStored } from './storedvariables';
import {
  CurveSource,
  ICurve,
  IFilesPreview,
  IJob,
  IJobRequest,
  ILease,
  IPoolList,
  IQuote,
  ISubmission,
  PageMessage,
  SchedulerState,
  ServerMessage
} from './types';

/** In the address of the hub's page of a server that starts, or of the one of its place in line. */
const STARTS = /\/hub\/spawn-pending\/|\/ticket\//;
/** How a hub answers in place of a server that does not run, with addresses in place of a reason. */
const GONE = 424;
/** Before JupyterHub 4, with the second. */
const STOPPED = new Set([GONE, 503]);
const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 15_000;
/** Of a stopped server: whoever looks waits for it, and a page in the background waits for nothing. */
const STOPPED_MS = 5_000;
const STOPPED_HIDDEN_MS = 60_000;

/** How the page stands with the server, in the order in which a reader cares. */
export type Connection = 'connecting' | 'lost' | SchedulerState;

/** A refusal or failure, told in the server's own sentence where there is one. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number
  ) {
    super(message);
  }
}

/** What to tell of something that failed. */
export function told(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** How long to wait before the n-th retry: doubling, capped, spread so that tabs do not march. */
export function retryDelay(attempt: number, random: number): number {
  const full = Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** attempt);
  return spread(full, random);
}

/** How long until it is asked again whether a server is back that was stopped. */
export function stoppedDelay(hidden: boolean, random: number): number {
  return spread(hidden ? STOPPED_HIDDEN_MS : STOPPED_MS, random);
}

function spread(ms: number, random: number): number {
  return Math.round(ms * (0.75 + random / 2));
}

/** One shared connection to our server extension. */
export class Api {
  constructor(
    private readonly _settings: ServerConnection.ISettings,
    /** Of the page: sentences that the scheduler composed come in it. */
    private readonly _language = 'en',
    /** What is told of calls to a server that was stopped. */
    private readonly _goneText = '',
    private readonly _random: () => number = Math.random
  ) {}

  /** What the server says, in order. */
  readonly message = new Signal<this, ServerMessage>(this);

  /** The socket opened (true) or was lost (false). */
  readonly connectedChanged = new Signal<this, boolean>(this);

  isConnected = false;

  /** Failures in a row; 0 once the server has spoken. */
  retries = 0;

  /** The server was stopped on purpose: whether it is back is asked seldom. */
  isStopped = false;

  /** Open the socket now; also the *Retry* of the panel, which does not wait for the back-off. */
  connect(): void {
    window.clearTimeout(this._timer);
    this._timer = 0;
    this._drop();
    const { WebSocket: Socket, wsUrl, token, appendToken } = this._settings;
    let url = `${wsUrl}gpucommons/ws?language=${this._language}`;
    if (appendToken && token !== '') {
      url += `&token=${encodeURIComponent(token)}`;
    }
    const socket = new Socket(url);
    socket.onopen = () => {
      this._setConnected(true);
    };
    socket.onmessage = event => {
      this.retries = 0;
      this.message.emit(JSON.parse(String(event.data)) as ServerMessage);
    };
    socket.onclose = () => {
      const delay = retryDelay(this.retries++, this._random());
      const seldom = stoppedDelay(document.hidden, this._random());
      this.isConnected = false;
      this.connectedChanged.emit(false);
      this._timer = window.setTimeout(
        () => {
          void this._connectKnown();
        },
        this.isStopped ? seldom : delay
      );
    };
    this._socket = socket;
  }

  /** Say something to the server; false where there is no open socket to say it on. */
  send(message: PageMessage): boolean {
    if (!this.isConnected || this._socket === null) {
      return false;
    }
    this._socket.send(JSON.stringify(message));
    return true;
  }

  pools(): Promise<IPoolList> {
    return this.request('GET', ['api', 'pools']);
  }

  job(ref: string): Promise<IJob> {
    return this.request('GET', ['api', 'jobs', ref]);
  }

  /** As this source tells it, or else the best one. */
  curve(ref: string, source?: CurveSource): Promise<ICurve> {
    const query = source ? `?source=${source}` : '';
    const path = ['api', 'jobs', ref, 'curve'];
    return this.request('GET', path, undefined, { query });
  }

  quote(request: IJobRequest): Promise<IQuote> {
    return this.request('POST', ['api', 'quote'], request);
  }

  /** The same key again makes no second job. */
  submit(request: IJobRequest, key: string): Promise<IJob> {
    return this.request('POST', ['api', 'jobs'], request, { key });
  }

  submitFile(submission: ISubmission, key: string): Promise<IJob> {
    return this.request('POST', ['submit-file'], submission, { key });
  }

  act(ref: string, action: 'cancel' | 'pause' | 'resume'): Promise<IJob> {
    return this.request('POST', ['api', 'jobs', ref, action], {});
  }

  /** The same once more, as the query says; the same key again makes no second job. */
  again(ref: string, query: string, key: string): Promise<IJob> {
    return this.request(
      'POST',
      ['api', 'jobs', ref, 'again'],
      {},
      { query, key }
    );
  }

  /** The same waiting job with so many GPUs for each worker. */
  resize(ref: string, milliGpu: number): Promise<IJob> {
    return this.request('POST', ['api', 'jobs', ref, 'resize'], {
      milli_gpu: milliGpu
    });
  }

  keep(leaseId: string, minutes: number): Promise<ILease> {
    return this.request('POST', ['api', 'leases', leaseId, 'keep'], {
      minutes
    });
  }

  drop(leaseId: string): Promise<ILease> {
    return this.request('POST', ['api', 'leases', leaseId, 'drop'], {});
  }

  hibernate(leaseId: string): Promise<ILease> {
    return this.request('POST', ['api', 'leases', leaseId, 'hibernate'], {});
  }

  chooseOnIdle(leaseId: string, onIdle: string): Promise<ILease> {
    const path = ['api', 'leases', leaseId, 'on-idle'];
    return this.request('POST', path, { on_idle: onIdle });
  }

  closeLostKernel(id: string): Promise<void> {
    return this.request('DELETE', ['lost-kernels', id]);
  }

  files(
    path: string,
    environment: string,
    module: string
  ): Promise<IFilesPreview> {
    const asked = new URLSearchParams({ path, environment, module });
    const query = `?${asked.toString()}`;
    return this.request('GET', ['files'], undefined, { query });
  }

  environments(): Promise<IEnvironments> {
    return this.request('GET', ['api', 'environments']);
  }

  /** Copy the shipped examples beside the user's own files. */
  examples(): Promise<{ folder: string; first: string }> {
    return this.request('POST', ['examples'], {});
  }

  /** What kernels of this user's earlier servers stored. */
  async stored(): Promise<IStored[]> {
    const answer = await this.request<{ stored: IStored[] }>('GET', [
      'stored-variables'
    ]);
    return answer.stored;
  }

  /** How this server answers: an HTTP status, 0 for not at all. */
  status({ logsIn = false } = {}): Promise<number> {
    const settings = logsIn ? this._settings : withoutLogin(this._settings);
    const url = `${settings.baseUrl}api/status`;
    return ServerConnection.makeRequest(url, {}, settings).then(
      answer => answer.status,
      () => 0
    );
  }

  /** What became of this server, in the hub's words; null where it runs, or nobody answers. */
  async stopped(): Promise<IStopped | null> {
    const settings = this._settings;
    try {
      const answer = await visit(settings, `${settings.baseUrl}lab`);
      const said = STOPPED.has(answer.status)
        ? readStopped(await answer.text())
        : null;
      // A proxy that reaches no server answers alike, and knows no way to start it.
      return said?.why || said?.startUrl ? said : null;
    } catch {
      return null;
    }
  }

  /** Have the hub start this server, or get it into line; false where it asks something first, or fails. */
  async startAgain(startUrl: string): Promise<boolean> {
    const settings = this._settings;
    try {
      const { ok, url } = await visit(settings, startUrl);
      return ok && (url.startsWith(settings.baseUrl) || STARTS.test(url));
    } catch {
      return false;
    }
  }

  /** Where Notebook 7 shows a folder. */
  folderUrl(path: string): string {
    const parts = path.split('/').filter(part => !/^\.?$/.test(part));
    return `${this._settings.baseUrl}tree/${parts.map(encodeURIComponent).join('/')}`;
  }

  /** For calls that come with the page that makes them, too. */
  async request<T>(
    method: string,
    segments: string[],
    body?: unknown,
    { query = '', key = '' } = {}
  ): Promise<T> {
    const path = segments.map(encodeURIComponent).join('/');
    const url = `${this._settings.baseUrl}gpucommons/${path}${query}`;
    const init: RequestInit = { method };
    if (body !== undefined) {
      init.body = JSON.stringify(body);
    }
    const headers = new Headers(this._settings.init.headers);
    headers.set('Accept-Language', this._language);
    if (key !== '') {
      headers.set('Idempotency-Key', key);
    }
    init.headers = headers;
    const response = await ServerConnection.makeRequest(
      url,
      init,
      this._settings
    );
    const answer: unknown = await response.json().catch(() => null);
    if (!response.ok) {
      const { status } = response;
      throw new ApiError(
        status === GONE ? this._goneText : sentence(answer, response),
        status
      );
    }
    return answer as T;
  }

  /** A socket cannot say that it is a stranger to a new server, or log in; asking for the status does. */
  private async _connectKnown(): Promise<void> {
    const timer = this._timer;
    if (this.isStopped) {
      await this.status({ logsIn: true });
    }
    // Else somebody has connected meanwhile, and that socket would be dropped.
    if (timer === this._timer) {
      this.connect();
    }
  }

  private _drop(): void {
    if (this._socket !== null) {
      this._socket.onopen = null;
      this._socket.onmessage = null;
      this._socket.onclose = null;
      this._socket.close();
      this._socket = null;
    }
    this._setConnected(false);
  }

  private _setConnected(connected: boolean): void {
    if (connected !== this.isConnected) {
      this.isConnected = connected;
      this.connectedChanged.emit(connected);
    }
  }

  private _socket: WebSocket | null = null;
  private _timer = 0;
}

function sentence(answer: unknown, response: Response): string {
  const message = (answer as { message?: unknown } | null)?.message;
  return typeof message === 'string' && message !== ''
    ? message
    : `${response.status} ${response.statusText}`;
}

const TOO_MANY_REQUESTS = 429;

/** The same again would be answered the same; a server in trouble may answer later. */
export function isRefusal(error: unknown): boolean {
  return (
    error instanceof ApiError &&
    error.status < 500 &&
    error.status !== TOO_MANY_REQUESTS
  );
}

/**
 * The key of a wish that is sent again: after a lost answer it is the same wish, after a refusal
 * another one.
 */
export function nextKey(key: string, error: unknown): string {
  return isRefusal(error) ? UUID.uuid4() : key;
}
