import { ServerConnection } from '@jupyterlab/services';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { Api, ApiError, nextKey, retryDelay, stoppedDelay } from './api';
import { fakeApi, FakeSocket, HELLO } from '../testing/sockets';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe('the one connection', () => {
  it('comes back by itself, later after each failure', () => {
    const api = fakeApi();
    api.connect();
    FakeSocket.last.hangUp();
    vi.advanceTimersByTime(retryDelay(0, 0.5) - 1);
    expect(FakeSocket.all).toHaveLength(1);

    vi.advanceTimersByTime(1);
    expect(FakeSocket.all).toHaveLength(2);

    FakeSocket.last.hangUp();
    vi.advanceTimersByTime(retryDelay(0, 0.5));
    expect(FakeSocket.all).toHaveLength(2);
    vi.advanceTimersByTime(retryDelay(1, 0.5));
    expect(FakeSocket.all).toHaveLength(3);
  });

  it('forgets its failures only when the server speaks', () => {
    const api = fakeApi();
    api.connect();
    FakeSocket.last.hangUp();
    vi.advanceTimersByTime(1000);
    FakeSocket.last.open();
    expect(api.retries).toBe(1);

    FakeSocket.last.say(HELLO);
    expect(api.retries).toBe(0);
  });

  it('waits at most a quarter of a minute, spread over tabs', () => {
    expect(retryDelay(50, 1)).toBe(18_750);
    expect(retryDelay(50, 0)).toBe(11_250);
  });

  it('retries at once when asked, on one socket', () => {
    const api = fakeApi();
    api.connect();
    const first = FakeSocket.last;
    api.connect();

    expect(first.closed).toBe(true);
    first.hangUp();
    vi.advanceTimersByTime(60_000);
    expect(FakeSocket.all).toHaveLength(2);
  });

  it('keeps the socket of who asked while a stopped server was looked for', async () => {
    const api = fakeApi();
    api.isStopped = true;
    api.connect();
    FakeSocket.last.hangUp();
    vi.advanceTimersByTime(stoppedDelay(false, 0.5));
    api.connect();
    await vi.advanceTimersByTimeAsync(1);

    expect(FakeSocket.all).toHaveLength(2);
  });

  it('sends only where somebody listens', () => {
    const api = fakeApi();
    api.connect();
    expect(api.send({ type: 'follow', job: 'j', rank: 0 })).toBe(false);

    FakeSocket.last.open();
    expect(api.send({ type: 'follow', job: 'j', rank: 0 })).toBe(true);
    expect(FakeSocket.last.sent).toEqual([
      { type: 'follow', job: 'j', rank: 0 }
    ]);
    expect(FakeSocket.last.url).toBe(
      'ws://lab/base/gpucommons/ws?language=de_DE'
    );
  });
});

describe('REST', () => {
  it('goes to the proxy of this server, with escaped references', async () => {
    const urls: string[] = [];
    const api = fakeApi(url => {
      urls.push(url);
      return new Response('{"id":"j"}');
    });
    await api.act('vision/digits-7', 'pause');
    await api.files('a b/x&y.ipynb', '/envs/torch', 'lib.train');

    expect(urls.map(url => url.replace(/[?&]\d+$/, ''))).toEqual([
      'http://lab/base/gpucommons/api/jobs/vision%2Fdigits-7/pause',
      'http://lab/base/gpucommons/files?path=a+b%2Fx%26y.ipynb&environment=%2Fenvs%2Ftorch&module=lib.train'
    ]);
  });

  it('knows where Notebook 7 shows a folder', () => {
    expect(fakeApi().folderUrl('runs/a b')).toMatch(/\/tree\/runs\/a%20b$/);
    expect(fakeApi().folderUrl('.')).toMatch(/\/tree\/$/);
  });

  it('asks for sentences in the language of the page', async () => {
    const asked: (string | null)[] = [];
    const api = fakeApi((_url, request) => {
      asked.push(new Headers(request.headers).get('Accept-Language'));
      return new Response('{"id":"j"}');
    });
    await api.act('digits-7', 'pause');
    await api.again('digits-7', '', 'a-key');

    expect(asked).toEqual(['de_DE', 'de_DE']);
  });

  it('says in our words that the server was stopped, not in those of the hub', async () => {
    const raw = 'JupyterHub server no longer running at /user/ada/. Restart it';
    const answer = JSON.stringify({ status: 424, message: raw });
    const api = fakeApi(() => new Response(answer, { status: 424 }));
    await expect(api.act('digits-7', 'pause')).rejects.toEqual(
      new ApiError('Your notebook server does not run.', 424)
    );
  });

  it('refuses in the server’s own sentence', async () => {
    const api = fakeApi(
      () => new Response('{"message":"Ask for 4 or less."}', { status: 422 })
    );

    await expect(api.job('x')).rejects.toEqual(
      new ApiError('Ask for 4 or less.', 422)
    );
  });

  it('says the status where there is no sentence', async () => {
    const api = fakeApi(
      () => new Response('<html>', { status: 502, statusText: 'Bad Gateway' })
    );

    await expect(api.job('x')).rejects.toThrow('502 Bad Gateway');
  });
});

describe('what became of the server', () => {
  const hub = (status: number, html: string) => {
    const fetch = () => Promise.resolve(new Response(html, { status }));
    const settings = ServerConnection.makeSettings({ fetch });
    return new Api(settings).stopped();
  };
  const start = '<a id="start" href="/hub/spawn/ada">Launch</a>';
  const why = '<p data-gpucommons="why">Stopped at 14:02: idle 60 min.</p>';

  it('is what the hub says of one that does not run', async () => {
    expect((await hub(424, why + start))?.why).toBe(
      'Stopped at 14:02: idle 60 min.'
    );
    expect((await hub(503, start))?.startUrl).toBe('/hub/spawn/ada');
  });

  it('is not known where it runs, or only a proxy answers', async () => {
    expect(await hub(200, why + start)).toBeNull();
    expect(await hub(503, '<h1>Service unavailable</h1>')).toBeNull();
  });

  it('is not known where nobody answers', async () => {
    const fetch = () => Promise.reject(new TypeError('offline'));
    const api = new Api(ServerConnection.makeSettings({ fetch }));

    expect(await api.stopped()).toBeNull();
  });
});

describe('a start again by the hub', () => {
  const starts = (url: string, status = 200) => {
    const answer = new Response('', { status });
    Object.defineProperty(answer, 'url', { value: `http://host${url}` });
    const baseUrl = 'http://host/user/ada/';
    const fetch = () => Promise.resolve(answer);
    const settings = ServerConnection.makeSettings({ fetch, baseUrl });
    return new Api(settings).startAgain('/hub/spawn/ada?opt-again=1');
  };

  it('is known by where it leads', async () => {
    expect(await starts('/hub/spawn-pending/ada?opt-again=1')).toBe(true);
    expect(await starts('/user/ada/lab')).toBe(true);
    // Its turn in line starts it: a page beside would only be followed by a second Lab.
    expect(await starts('/services/gpucommons/ticket/0190')).toBe(true);
  });

  it('is none where it asks something first, or fails', async () => {
    expect(await starts('/hub/spawn/ada')).toBe(false);
    expect(await starts('/services/gpucommons/ticket?milli_gpu=500')).toBe(
      false
    );
    expect(await starts('/hub/login?next=%2Fhub%2F')).toBe(false);
    expect(await starts('/hub/spawn-pending/ada', 500)).toBe(false);
  });
});

it('asks soon whether a stopped server is back while somebody looks', () => {
  expect(stoppedDelay(false, 1)).toBeLessThan(10_000);
  expect(stoppedDelay(true, 0)).toBeGreaterThan(40_000);
});

it('is the same wish after a lost answer, and another one after a refusal', () => {
  expect(nextKey('a', new TypeError('no answer'))).toBe('a');
  expect(nextKey('a', new ApiError('away', 503))).toBe('a');
  // The key was used for the file as it was: it has changed since.
  expect(nextKey('a', new ApiError('another request', 409))).not.toBe('a');
});
