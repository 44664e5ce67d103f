/** A WebSocket under the hand of a test, and an API that uses it. */
import { ServerConnection } from '@jupyterlab/services';
import { afterEach } from 'vitest';

import { Api } from '../server/api';
import { ServerMessage } from '../server/types';

export class FakeSocket {
  static all: FakeSocket[] = [];

  static get last(): FakeSocket {
    const socket = FakeSocket.all.at(-1);
    if (!socket) {
      throw new Error('No socket was opened.');
    }
    return socket;
  }

  constructor(readonly url: string) {
    FakeSocket.all.push(this);
  }

  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: (() => void) | null = null;
  readonly sent: unknown[] = [];
  closed = false;

  send(text: string): void {
    this.sent.push(JSON.parse(text));
  }

  close(): void {
    this.closed = true;
  }

  open(): void {
    this.onopen?.();
  }

  say(message: ServerMessage): void {
    this.onmessage?.({ data: JSON.stringify(message) });
  }

  hangUp(): void {
    this.onclose?.();
  }
}

const made: Api[] = [];

// A timer that is to connect again would outlive its test, and on a busy machine the file's window.
afterEach(() => {
  for (const api of made.splice(0)) {
    api.connect();
  }
});

export type Answer = (url: string, init: RequestInit) => Response;

/** What is told of calls to a server that was stopped. */
export const GONE_TEXT = 'Your notebook server does not run.';

/** An API on fake sockets whose REST calls are answered by `answer`. */
export function fakeApi(answer: Answer = () => new Response('{}')): Api {
  FakeSocket.all = [];
  const settings = ServerConnection.makeSettings({
    baseUrl: 'http://lab/base/',
    wsUrl: 'ws://lab/base/',
    token: '',
    WebSocket: FakeSocket as unknown as typeof WebSocket,
    fetch: async input => {
      const request = input as Request;
      return Promise.resolve(
        answer(request.url, {
          method: request.method,
          headers: request.headers,
          body: await request.text()
        })
      );
    }
  });
  const api = new Api(settings, 'de_DE', GONE_TEXT, () => 0.5);
  made.push(api);
  return api;
}

export const HELLO: Extract<ServerMessage, { type: 'hello' }> = {
  type: 'hello',
  whoami: { name: 'ada', teams: ['vision'] },
  lease: null,
  shared_account: false,
  scheduler: 'ok'
};
