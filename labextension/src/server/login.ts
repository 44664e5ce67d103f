/**
 * A hub's new server does not know the login that an open page has: it asks for another, and Lab takes
 * the refusal for a kernel that died. So the page logs in again by itself, as a reload would, and asks
 * once more; whoever has to type a password is left as they are.
 */
import { ServerConnection } from '@jupyterlab/services';

type Settings = ServerConnection.ISettings;

const FORBIDDEN = 403;
const XSRF = 'X-XSRFToken';

const PLAIN = new WeakMap<Settings, Settings>();

/** For who wants to hear a refusal: nothing logs in on its behalf. */
export function withoutLogin(settings: Settings): Settings {
  return PLAIN.get(settings) ?? settings;
}

/** Have all that asks with these settings log in again where it is refused. */
export function keepLoggedIn(settings: Settings): void {
  const ask = settings.fetch;
  const plain = { ...settings, fetch: ask };
  PLAIN.set(settings, plain);
  let login: Promise<boolean> | null = null;
  const withLogin: typeof ask = async (input, init) => {
    // What was sent cannot be sent again.
    const again = typeof input === 'string' ? input : input.clone();
    const answer = await ask(input, init);
    if (answer.status !== FORBIDDEN) {
      return answer;
    }
    // All that is refused in the meantime waits for the same login.
    login ??= logIn(plain).finally(() => {
      login = null;
    });
    return (await login) ? ask(withToken(again), init) : answer;
  };
  Object.assign(settings, { fetch: withLogin });
}

/** True where the page is known by now: what was refused to it may be no more. */
async function logIn(settings: Settings): Promise<boolean> {
  if (await isKnown(settings)) {
    return true;
  }
  // It goes by the hub and back.
  await visit(settings, `${settings.baseUrl}lab`).catch(() => undefined);
  return isKnown(settings);
}

/** A page of the hub's, which it shows to a visitor: more than that would need a token of its own. */
export function visit({ fetch }: Settings, url: string): Promise<Response> {
  // The browser's own one answers as nobody's method alone.
  return fetch(url, {
    mode: 'no-cors',
    cache: 'no-store',
    headers: { Accept: 'text/html' }
  });
}

async function isKnown(settings: Settings): Promise<boolean> {
  const url = `${settings.baseUrl}api/status`;
  try {
    return (await ServerConnection.makeRequest(url, {}, settings)).ok;
  } catch {
    return false;
  }
}

/** The new login has a new token against forgery; Lab put the old one there. */
function withToken(input: RequestInfo): RequestInfo {
  const token = /(?:^|; )_xsrf=([^;]*)/.exec(document.cookie)?.[1];
  if (token !== undefined && typeof input !== 'string') {
    input.headers.set(XSRF, token);
  }
  return input;
}
