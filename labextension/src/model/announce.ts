/** What a screen reader is told about the queue: changes of state or place, nothing that ticks. */
import type { Messages } from '../text/messages';
import { IJob } from '../server/types';

export function announcement(
  before: readonly IJob[] | null,
  after: readonly IJob[] | null,
  msg: Messages
): string {
  if (before === null || after === null) {
    return '';
  }
  const known = new Map(before.map(job => [job.id, job]));
  const told: string[] = [];
  for (const job of after) {
    const old = known.get(job.id);
    if (old?.state !== job.state) {
      told.push(`${job.name}: ${msg.state(job)}`);
    } else if (old.position !== job.position && job.position != null) {
      told.push(`${job.name}: ${msg.inLine(job.position)}`);
    }
  }
  return told.join('. ');
}
