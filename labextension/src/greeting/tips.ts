/** Which tip stands above the panel: one at a time, in this order, each until it is closed. Pure. */
import { isFinal } from '../model/jobs';
import { idleAfterMs, idleLength, warnAfterMs } from '../model/idle';
import { countdown } from '../text/format';
import type { Messages } from '../text/messages';
import type { Model } from '../model/model';

export interface ITip {
  id: string;
  title: string;
  text: string;
  /** It leads to the example. */
  offersExample: boolean;
}

type Known = Pick<Model, 'connection' | 'jobs' | 'lease' | 'whoami'>;

export function tipNow(
  model: Known,
  hasSeen: (id: string) => boolean,
  { trans }: Messages,
  hasFile = false
): ITip | null {
  if (model.connection !== 'ok' || model.jobs === null) {
    return null;
  }
  const own = model.jobs.filter(job => job.owner === model.whoami?.name);
  if (hasFile && own.length === 0) {
    // Whoever has opened what is to be their first job needs the room: *Submit* stands below.
    return null;
  }
  const idle = model.lease?.slice ? model.lease.idle : null;
  const tips: (ITip | false)[] = [
    // Who has a job knows how; a team-mate's shows them nothing.
    own.length === 0 && {
      id: 'first-job',
      title: trans.__('Your first training job.'),
      text: trans.__(
        'Open the example and press Submit under Train; the job’s page opens by itself.'
      ),
      offersExample: true
    },
    own.some(job => !isFinal(job)) && {
      id: 'job-goes-on',
      title: trans.__('Jobs do not need this page.'),
      text: trans.__(
        'Close the browser or stop the notebook: the job goes on, and its page shows what came meanwhile.'
      ),
      offersExample: false
    },
    idle != null && {
      id: 'idle',
      title: trans.__('Idle GPUs go back.'),
      text:
        idleAfterMs(idle) > warnAfterMs(idle)
          ? trans.__(
              'After %1 without GPU work or a running cell this notebook is stopped; you are told %2 before, and can keep it.',
              idleLength(idle).join(' ').trimEnd(),
              countdown(idleAfterMs(idle) - warnAfterMs(idle))
            )
          : trans.__(
              'After %1 without GPU work or a running cell this notebook is stopped; you are told before, and can keep it.',
              idleLength(idle).join(' ').trimEnd()
            ),
      offersExample: false
    }
  ];
  return tips.find(tip => tip && !hasSeen(tip.id)) || null;
}
