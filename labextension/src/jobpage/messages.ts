/** Sentences of a job's page, which come with its code. */
import { clock, dayAndMonth, gpuHours, length } from '../text/format';
import type { Messages } from '../text/messages';
import { CurveSource, IForecast, IJob } from '../server/types';
import type { IPartOf, ISlowPlace, ITightness } from '../server/jobtypes';

export type JobMessages = ReturnType<typeof jobMessages>;

export function jobMessages(msg: Messages) {
  const { trans } = msg;
  return {
    ...msg,

    holdClass(job: IJob): string | null {
      const words: Record<string, string> = {
        guaranteed: trans.__('guaranteed'),
        'over-quota': trans.__('borrowed, can be stopped')
      };
      return words[job.hold_class ?? ''] ?? null;
    },

    notSaved(): string {
      return trans.__('no checkpoint yet');
    },

    /** A sentence: the window and how right such were, or why there is none. */
    likelyInFull(forecast: IForecast): string {
      const window = this.window(forecast);
      if (window === null || (forecast.basis ?? 'known') !== 'known') {
        return forecast.text;
      }
      return forecast.right_of_ten == null
        ? trans.__('Likely %1.', window)
        : trans.__(
            'Likely %1 (past estimates right %2 of 10).',
            window,
            forecast.right_of_ten
          );
    },

    /** "trial 7 of sweep digits-sweep-3" */
    partOf(part: IPartOf): string {
      if (part.kind === 'look') {
        return trans.__('look at the data of schedule %1', part.name);
      }
      if (part.number === 0 && part.kind !== 'map') {
        return trans.__('run of %1 %2', part.kind, part.name);
      }
      return part.kind === 'sweep'
        ? trans.__('trial %1 of sweep %2', part.number, part.name)
        : trans.__('job %1 of %2 %3', part.number, part.kind, part.name);
    },

    /** Where the curve was read. */
    curveSource(source: CurveSource): string {
      const words: Record<CurveSource, string> = {
        report: trans.__('source: reports of the script'),
        trainer: trans.__('source: reports of its trainer'),
        tensorboard: trans.__('source: TensorBoard files'),
        log: trans.__('source: log, rank 0')
      };
      return words[source];
    },

    noCurve(isOver = false): string {
      if (isOver) {
        return trans.__(
          'No curve: no metrics were found in its log, in TensorBoard files or in reports.'
        );
      }
      return trans.__(
        'A curve appears when the job prints its metrics (“epoch 3 loss 0.52”), writes TensorBoard files, or calls run.report(step=…, loss=…).'
      );
    },

    onlyCounts(counted: string): string {
      return trans.__('%1; no metric is printed that is known here.', counted);
    },

    /** The fullest worker's memory. */
    memoryUsed(mib: number | null, heldMib: number | null): string {
      if (mib === null) {
        return trans.__('no memory data');
      }
      const used = (mib / 1024).toFixed(1);
      return heldMib === null
        ? trans.__('%1 GiB, the fullest worker', used)
        : trans.__(
            '%1 of %2 GiB, the fullest worker',
            used,
            (heldMib / 1024).toFixed(1)
          );
    },

    foldedLines(count: number): string {
      return trans._n('… %1 line', '… %1 lines', count);
    },

    resumedAt(step: string, held: string): string {
      return trans.__('resumed at %1 on %2', step, held);
    },

    /** Of one of which it is still to be seen whether it goes on there. */
    beganWith(step: string, held: string): string {
      return trans.__('began on %2 with what was saved at %1', step, held);
    },

    /** How much faster it is, only where both sizes told how fast they were. */
    changedSize(
      before: number,
      now: number,
      at: string,
      times: number | null | undefined
    ): string {
      const changed =
        now > before
          ? trans.__('grew to %1 at %2', now, at)
          : trans.__('shrank to %1 at %2', now, at);
      if (times == null || times <= 0) {
        return changed;
      }
      const worth =
        times >= 1.05
          ? trans.__('%1 × faster', times.toFixed(1))
          : times <= 1 / 1.05
            ? trans.__('%1 × slower', (1 / times).toFixed(1))
            : trans.__('no faster');
      return `${changed}: ${worth}`;
    },

    /** "2 GPUs on one node, linked by NVLink" */
    tightness(of: ITightness): string {
      const unknown = trans.__('links not known');
      if (of.nodes === 1) {
        const words: Record<string, string> = {
          nvlink: trans.__('linked by NVLink'),
          switch: trans.__('linked by PCIe switches'),
          socket: trans.__('on one CPU socket (NUMA node)'),
          node: trans.__('across CPU sockets (NUMA nodes)')
        };
        const link = words[of.link] ?? unknown;
        return trans.__('%1 GPUs on one node, %2', of.gpus, link);
      }
      if (of.racks == null) {
        return trans.__('%1 GPUs on %2 nodes, %3', of.gpus, of.nodes, unknown);
      }
      return of.racks === 1
        ? trans.__('%1 GPUs on %2 nodes in one rack', of.gpus, of.nodes)
        : trans.__(
            '%1 GPUs on %2 nodes in %3 racks',
            of.gpus,
            of.nodes,
            of.racks
          );
    },

    /** Where the same steps take longer than elsewhere, and until when it is avoided. */
    slow(of: ISlowPlace): string {
      const since = dayAndMonth(of.since_ms);
      const until = `${dayAndMonth(of.until_ms)} ${clock(of.until_ms)}`;
      const [first, second] = of.nodes;
      return second === undefined
        ? trans.__(
            'Steps take %1 % longer on %2 than on other nodes, known since %3: until %4 another of equal nodes is taken.',
            of.percent,
            first,
            since,
            until
          )
        : trans.__(
            'Steps take %1 % longer on %2 and %3 together than on other pairs of nodes, known since %4: until %5 a job on several nodes first looks for others.',
            of.percent,
            first,
            second,
            since,
            until
          );
    },

    waited(ms: number): string {
      return trans.__('waited %1', length(ms));
    },

    /** From the moment that it had its GPUs. */
    startedIn(ms: number): string {
      return trans.__('started in %1', length(ms));
    },

    paused(ms: number): string {
      return trans.__('paused %1', length(ms));
    },

    gpuH(milliGpuS: number): string {
      return trans.__('%1 GPU-h', gpuHours(milliGpuS));
    },

    /** Without a checkpoint a script may go on from files of its own: then this is the most. */
    lost(milliGpuS: number, atMost: boolean): string {
      if (milliGpuS === 0) {
        return trans.__('nothing lost to stops');
      }
      const minutes = (milliGpuS / 60_000).toFixed(1);
      if (minutes === '0.0') {
        return trans.__('less than 0.1 GPU-min lost to stops');
      }
      return atMost
        ? trans.__('at most %1 GPU-min lost to stops', minutes)
        : trans.__('%1 GPU-min lost to stops', minutes);
    }
  };
}
