/** A notebook server that restarts: its page waits for it, and then loads anew. */
import { Dialog } from '@jupyterlab/apputils';

import type { Api } from '../server/api';
import type { Messages } from '../text/messages';

const EVERY_MS = 1000;
const PATIENCE_MS = 120_000;
const OK = 200;
/** The new server does not know the old one's login. */
const STRANGER = 403;

/** True once the restarted server answers and knows this page, false where it does not come back. */
export async function cameBack(
  api: Pick<Api, 'status'>,
  sleep: (ms: number) => Promise<void>
): Promise<boolean> {
  let wasDown = false;
  for (let waited = 0; waited < PATIENCE_MS; waited += EVERY_MS) {
    await sleep(EVERY_MS);
    const status = await api.status();
    if (status === STRANGER) {
      // What else asks logs in by itself. Two logins at once overwrite each other's cookie, and the
      // hub would refuse that of the page that is loaded anew.
      await api.status({ logsIn: true });
      return true;
    }
    if (status === OK && wasDown) {
      return true;
    }
    wasDown ||= status !== OK;
  }
  return false;
}

/** Lab's own dialogs about a lost server stand in line behind this one. */
export async function reloadWhenBack(api: Api, msg: Messages): Promise<void> {
  const waiting = new Dialog({
    title: msg.restarting(),
    body: msg.reloads(),
    buttons: [Dialog.okButton({ label: msg.reload() })],
    hasClose: false
  });
  const reload = () => {
    window.location.reload();
  };
  void waiting.launch().then(({ button }) => {
    if (button.accept) {
      reload();
    }
  });
  const sleep = (ms: number) =>
    new Promise<void>(resolve => window.setTimeout(resolve, ms));
  if (await cameBack(api, sleep)) {
    reload();
  }
  waiting.reject();
}
