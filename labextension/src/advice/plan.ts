/** What was said of a job beside what came, in the reader's words and by the reader's clock. No DOM. */
import type { IPlanAnew, IPlanRecord } from '../server/plans';
import type { Messages } from '../text/messages';
import { moment } from '../text/moment';

export interface IPlanRow {
  what: string;
  said: string;
  came: string;
  right: boolean | null;
}

export function planRows(
  plan: IPlanRecord,
  msg: Messages,
  nowMs: number
): IPlanRow[] {
  const { trans } = msg;
  // What has no word here is of a newer scheduler.
  const words: Record<string, string> = {
    Speed: trans.__('Speed'),
    'Memory per GPU': trans.__('Memory per GPU'),
    Wait: trans.__('Wait'),
    Finish: trans.__('Finish'),
    'GPU-hours': trans.__('GPU-hours'),
    Money: trans.__('Money'),
    none: trans.__('none'),
    'not known': trans.__('not known'),
    'not started yet': trans.__('not started yet'),
    'never started': trans.__('never started'),
    'not over yet': trans.__('not over yet')
  };
  const inWords = (text: string) => words[text] ?? text;
  // A short job's span lies within a minute.
  const span = (low: string, high: string) =>
    low === high ? low : trans.__('%1 to %2', low, high);
  return plan.lines.map(line => {
    const ends = line.predicted_ms;
    const came = line.actual_ms;
    const minutes = [...(ends ?? []), came].map(ms =>
      ms == null ? '' : moment(ms, nowMs)
    );
    // Late within the minute that was said: whole minutes would contradict the verdict.
    const isClose = line.right === false && minutes[1] === minutes[2];
    const at = (ms: number) =>
      moment(ms, nowMs) +
      (isClose ? `:${String(new Date(ms).getSeconds()).padStart(2, '0')}` : '');
    return {
      what: inWords(line.what),
      said: ends ? span(at(ends[0]), at(ends[1])) : inWords(line.predicted),
      came: came == null ? inWords(line.actual) : at(came),
      right: line.right ?? null
    };
  });
}

/** "Resumed at step 5,430 on 2 GPUs; plan changed: …" */
export function anewText(anew: IPlanAnew, msg: Messages): string {
  const { trans } = msg;
  const { gpus, layout, batch, verdict, speed } = anew;
  const began =
    anew.step == null
      ? trans._n('Started on %1 GPU', 'Started on %1 GPUs', gpus)
      : trans._n(
          'Resumed at %2 %3 on %1 GPU',
          'Resumed at %2 %3 on %1 GPUs',
          gpus,
          msg.unit(anew.unit),
          anew.step.toLocaleString('en-US')
        );
  const fits: Record<string, string> = {
    fits: trans.__('fits'),
    tight: trans.__('tight')
  };
  const fit = fits[verdict] ?? trans.__('whether it fits is not known');
  const changed = trans.__(
    '%1; plan changed: %2; global batch unchanged (%3): %4, %5.',
    began,
    layout,
    batch,
    fit,
    speed
  );
  const how = anew.as_told
    ? trans.__(
        'Its script is told so (%1): one that does not take what it is told trains with another global batch.',
        'GPUCOMMONS_ACCUMULATION, GPUCOMMONS_BATCH_SCALE'
      )
    : trans.__(
        'The way it had does not fit so few GPUs, or does not divide over them: its script has to do it so itself.'
      );
  return `${changed} ${how}`;
}
