/** Questions before a job is cancelled or paused; they come with the first. */
import { Dialog, showDialog } from '@jupyterlab/apputils';
import type { Widget } from '@lumino/widgets';

import { cancelWords, pauseCosts } from '../model/jobs';
import type { Model } from '../model/model';
import type { IJob } from '../server/types';
import type { Messages } from '../text/messages';
import { CurrentText } from './currenttext';

export type JobAction = 'cancel' | 'pause' | 'resume';

/** Ask before work is lost that nobody can bring back. */
export async function confirmAction(
  action: JobAction,
  job: IJob,
  model: Model,
  msg: Messages
): Promise<boolean> {
  const { trans } = msg;
  if (action === 'cancel') {
    const [body, keep] = cancelWords(job, msg);
    return asked(
      trans.__('Cancel %1?', job.name),
      body,
      keep,
      trans.__('Cancel job')
    );
  }
  if (action === 'resume') {
    return true;
  }
  const ask = async () => pauseCosts(await model.api.job(job.id));
  const costs = await ask();
  if (!costs) {
    return true;
  }
  return asked(
    trans.__('Pause %1?', job.name),
    new CurrentText(costs, ask),
    trans.__('Let it run'),
    trans.__('Pause job')
  );
}

/** Ask; false is the answer that changes nothing. */
async function asked(
  title: string,
  body: string | Widget,
  no: string,
  yes: string
): Promise<boolean> {
  const { button } = await showDialog({
    title,
    body,
    buttons: [
      Dialog.cancelButton({ label: no }),
      Dialog.warnButton({ label: yes })
    ]
  });
  return button.accept;
}
