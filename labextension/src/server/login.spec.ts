import { ServerConnection } from '@jupyterlab/services';
import { afterEach, describe, expect, it } from 'vitest';

import { keepLoggedIn, withoutLogin } from './login';

/** A server that knows nobody until its page was visited. */
function server(options: { logsIn: boolean }) {
  const asked: string[] = [];
  let known = false;
  const settings = ServerConnection.makeSettings({
    baseUrl: 'http://hub/user/ada/',
    fetch: function (this: unknown, input) {
      if (this != null) {
        throw new TypeError('Illegal invocation');
      }
      const request = new Request(input);
      const { pathname } = new URL(request.url);
      const token = request.headers.get('X-XSRFToken');
      asked.push(`${pathname.replace('/user/ada/', '')} ${token ?? ''}`.trim());
      if (pathname.endsWith('/lab')) {
        known = options.logsIn;
        document.cookie = '_xsrf=new';
      }
      const allowed = known && !pathname.endsWith('/secret');
      return Promise.resolve(new Response('', { status: allowed ? 200 : 403 }));
    }
  });
  keepLoggedIn(settings);
  const ask = async (path: string) => {
    const url = settings.baseUrl + path;
    const answer = await ServerConnection.makeRequest(url, {}, settings);
    return answer.status;
  };
  return { asked, ask, settings };
}

afterEach(() => {
  document.cookie = '_xsrf=; max-age=0';
});

describe('a page that its new server does not know', () => {
  it('logs in and asks again, with the new token', async () => {
    document.cookie = '_xsrf=old';
    const { asked, ask } = server({ logsIn: true });

    expect(await ask('api/kernels/k1')).toBe(200);
    expect(asked).toEqual([
      'api/kernels/k1 old',
      'api/status old',
      'lab',
      'api/status new',
      'api/kernels/k1 new'
    ]);
  });

  it('logs in once for all that is refused', async () => {
    const { asked, ask } = server({ logsIn: true });

    expect(await Promise.all([ask('a'), ask('b'), ask('c')])).toEqual([
      200, 200, 200
    ]);
    expect(asked.filter(each => each === 'lab')).toHaveLength(1);
  });

  it('is told what it was told where a password is wanted', async () => {
    const { asked, ask } = server({ logsIn: false });

    expect(await ask('a')).toBe(403);
    expect(asked).toEqual(['a', 'api/status', 'lab', 'api/status new']);
  });

  it('can hear the refusal', async () => {
    const { asked, settings } = server({ logsIn: true });
    const url = `${settings.baseUrl}a`;
    const plain = withoutLogin(settings);

    expect((await ServerConnection.makeRequest(url, {}, plain)).status).toBe(
      403
    );
    expect(asked).toEqual(['a']);
  });

  it('is refused what is forbidden, without a visit', async () => {
    const { asked, ask } = server({ logsIn: true });
    await ask('a');
    asked.length = 0;

    expect(await ask('secret')).toBe(403);
    expect(asked.some(each => each.startsWith('lab'))).toBe(false);
  });
});
