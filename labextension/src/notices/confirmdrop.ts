/** The questions before a server gives its GPU back. They come when they are asked. */
import type { Keeps } from '../server/lostkernels';
import type { Messages } from '../text/messages';
import { confirm } from './notices';

/** Ask before variables are lost; of another server it is not known here what it keeps. */
export async function confirmDrop(
  msg: Messages,
  keeps: Keeps | 'unknown' = 'unknown'
): Promise<boolean> {
  return confirm(msg.dropToCpu(), dropBody(keeps, msg), msg.restart());
}

/** Ask before the server is stopped. */
export function confirmHibernate(msg: Messages): Promise<boolean> {
  const body = msg.trans.__(
    'The notebook server is stopped and its GPU is free. Kernels that can be saved go on where they are when it is started again; of others, variables are kept at most.'
  );
  return confirm(msg.hibernate(), body, msg.hibernate());
}

/** What becomes of kernels when the server restarts without its GPU. */
export function dropBody(keeps: Keeps | 'unknown', msg: Messages): string {
  const { trans } = msg;
  switch (keeps) {
    case 'kernels':
      return trans.__(
        'The notebook server restarts without its GPU. Its kernels are saved first and come back with their variables; the notebook of a kernel that could not be saved says so. Terminals end.'
      );
    case 'variables':
      return trans.__(
        'The notebook server restarts without its GPU. Variables of idle Python kernels that can be stored are kept and offered afterwards; all else of its kernels is lost.'
      );
    case 'nothing':
      return trans.__(
        'The notebook server restarts without its GPU: its variables are lost.'
      );
    case 'unknown':
      return trans.__(
        'The notebook server restarts without its GPU: what it cannot keep of its kernels is lost.'
      );
  }
}
