/** The question before *Run again from here*. It comes when it is asked. */
import { stepText } from '../model/jobs';
import type { IJob } from '../server/types';
import type { Messages } from '../text/messages';
import { confirm } from './notices';

/** Ask before a job that has finished begins to hold GPUs once more. */
export function confirmMore(job: IJob, msg: Messages): Promise<boolean> {
  const step = job.checkpoint ? stepText(job, job.checkpoint.step, msg) : '';
  const { trans } = msg;
  const body = trans.__(
    '%1 has finished. A new job runs the same command and goes on from what it saved last, %2; a script that is through by then ends at once.',
    job.name,
    step
  );
  return confirm(trans.__('Run again from here?'), body, trans.__('Run again'));
}
