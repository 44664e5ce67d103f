/** What is said of a job's data loader: sentences, and what its buttons set. No DOM. */
import type {
  IDataAdvice,
  ILoaderChoice,
  ILoaderSettings,
  ILoadingHint
} from '../server/plans';
import type { Messages } from '../text/messages';

export interface IDataView {
  /** What was found. */
  finding: string;
  /** What its owner can do beside. */
  hints: string[];
  /** Where the numbers are from; '' where there are none. */
  source: string;
  /** What was chosen before; '' where nothing was. */
  chosen: string;
  /** What *Apply to the next attempt* sets; null = there is no such button. */
  applies: ILoaderSettings | null;
  /** What another run of a job that is over sets; null = there is no such button. */
  runsAgain: ILoaderSettings | null;
  /** *As the script says* takes a choice back. */
  takesBack: boolean;
}

/** Null where nothing was timed and nothing chosen: a page says nothing of what it does not know. */
export function dataView(
  advice: IDataAdvice,
  may: { steer: boolean; runAgain: boolean },
  msg: Messages
): IDataView | null {
  const { trans } = msg;
  const { verdict, chosen, advised } = advice;
  const applied =
    chosen != null &&
    advised?.workers === chosen.workers &&
    advised.prefetch === chosen.prefetch;
  if (verdict === 'unknown' && chosen == null) {
    return null;
  }
  return {
    finding: finding(advice, msg),
    hints: advice.hints.map(hint => hintText(hint, msg)),
    source:
      verdict === 'unknown'
        ? ''
        : trans.__(
            'Timed over the newest %1 batches of attempt %2, in its first process.',
            advice.batches,
            advice.attempt ?? 1
          ),
    chosen: chosen == null ? '' : chosenText(chosen, advice.can_choose, msg),
    applies:
      may.steer && advice.can_choose && advised != null && !applied
        ? advised
        : null,
    runsAgain:
      may.runAgain && !advice.can_choose && advised != null ? advised : null,
    takesBack: may.steer && advice.can_choose && chosen != null
  };
}

function chosenText(
  chosen: ILoaderChoice,
  goesOn: boolean,
  msg: Messages
): string {
  const { trans } = msg;
  const workers = workersText(chosen.workers, chosen.prefetch, msg);
  if (!goesOn && !chosen.in_force) {
    return trans.__(
      'It was over before it ran with %1, as %2 chose.',
      workers,
      chosen.by
    );
  }
  return chosen.in_force
    ? trans.__('It runs with %1, as %2 chose.', workers, chosen.by)
    : trans.__(
        'From its next attempt on: %1, as %2 chose.',
        workers,
        chosen.by
      );
}

function finding(advice: IDataAdvice, msg: Messages): string {
  const { trans } = msg;
  const { wait_ms: wait, batch_ms: batch } = advice;
  const percent = Math.round((100 * wait) / Math.max(batch, 1e-9));
  switch (advice.verdict) {
    case 'unknown':
      return trans.__('How it waits for its data is not known yet.');
    case 'fine':
      return trans.__(
        'It hardly waits for its data: %1 of %2 per batch.',
        spell(wait),
        spell(batch)
      );
    case 'busy':
      return trans.__(
        'It waits for its data for %1 of %2 per batch, and its GPUs are busy all the same (%3 %): nothing would be won.',
        spell(wait),
        spell(batch),
        advice.gpu_percent ?? 100
      );
    case 'bound': {
      const found = trans.__(
        'It waits for its data for %1 of %2 per batch (%3 %).',
        spell(wait),
        spell(batch),
        percent
      );
      const { advised } = advice;
      return advised?.workers == null
        ? found
        : [
            found,
            trans.__(
              'With %1, a batch likely takes %2 to %3.',
              workersText(advised.workers, advised.prefetch, msg),
              spell(advice.low_ms),
              spell(advice.high_ms)
            )
          ].join(' ');
    }
  }
}

function hintText(hint: ILoadingHint, msg: Messages): string {
  const { trans } = msg;
  const [first = '', second = ''] = hint.values;
  switch (hint.kind) {
    case 'cores':
      return trans.__(
        'Its loader has %1 of the %2 cores that it would need to keep up: ask for more.',
        first,
        second
      );
    case 'node':
      return trans.__(
        'Its loader has %1 of the %2 cores that it would need to keep up, fewer than the job asks for: its node has no more.',
        first,
        second
      );
    case 'stream':
      return trans.__(
        'Its data is a stream: more workers would each read all of it, unless it shares itself out.'
      );
    case 'loader':
      return trans.__(
        'Its loader is not torch’s, so it has to be told in the script to load ahead.'
      );
    case 'keras':
      return trans.__(
        'Keras makes its batches in the training’s own process: give fit() a PyDataset with workers, or torch’s DataLoader.'
      );
    case 'keras_dataset':
      return trans.__(
        'Its batches come from a PyDataset of Keras, whose workers its script sets: with PyDataset(workers=%1) it would wait less, also use_multiprocessing=True where batches are computed.',
        first
      );
    case 'cache':
      return trans.__(
        'All of its data takes %1 GiB once it is loaded, and each worker of the job has %2 GiB of memory, shared by its training processes: where samples are the same each time, keep them there.',
        first,
        second
      );
    case 'remote':
      return trans.__(
        'Its files lie on %1, behind a network: copy them to a disk of the node first.',
        first
      );
    case 'far':
      return trans.__(
        'It ran on nodes that do not have the data which it names.'
      );
    default:
      // Of a newer scheduler.
      return hint.text;
  }
}

export function workersText(
  workers: number,
  prefetch: number,
  msg: Messages
): string {
  const { trans } = msg;
  if (workers === 0) {
    return trans.__('no workers');
  }
  const ahead = trans._n('%1 batch ahead', '%1 batches ahead', prefetch);
  return trans._n('%1 worker, %2', '%1 workers, %2', workers, ahead);
}

function spell(ms: number): string {
  return ms >= 1000
    ? `${(ms / 1000).toFixed(1)} s`
    : ms >= 10
      ? `${Math.round(ms)} ms`
      : `${Number(ms.toPrecision(2))} ms`;
}
