/** From the *Train* form to a schedule, as the server takes it. Pure. */
import { type ITrainForm, jobRequest, submission } from './request';

/** The same as a schedule: what is of one submit alone is left out. */
export function scheduling(form: ITrainForm): object {
  const { cron, timeZone } = form;
  const when = { schedule: cron.trim(), time_zone: timeZone.trim() };
  if (form.source?.kind === 'file') {
    return { ...when, file: submission(form, form.source.path) };
  }
  const once = { after: undefined, not_before_ms: undefined };
  const job = { ...jobRequest(form), ...once, parent: undefined };
  return { ...when, job };
}
