/** Sentences of the page of pipelines, which come with its code. */
import { clock, duration } from '../text/format';
import type { Messages } from '../text/messages';
import type { IPipeline, IStep } from '../server/pipelines';

export type PipelineMessages = ReturnType<typeof pipelineMessages>;

export function pipelineMessages(msg: Messages) {
  const { trans } = msg;
  return {
    ...msg,

    none(): string {
      return trans.__(
        'No pipelines yet. Write a pipeline.yaml and run it here, or in a terminal: gpucommons pipeline run'
      );
    },

    // --- a file of steps, before it runs ---

    fileToRun(): string {
      return trans.__('Pipeline to run');
    },

    runTitle(name: string): string {
      return trans.__('Run the pipeline %1?', name);
    },

    cannotRun(path: string): string {
      return trans.__('%1 cannot run', path);
    },

    after(steps: readonly string[]): string {
      return trans.__('after %1', steps.join(', '));
    },

    /** A step, and what must have become of it. */
    afterStep(step: string, how: string): string {
      return (
        {
          any: trans.__('the end of %1', step),
          failed: trans.__('a failure of %1', step)
        }[how] ?? step
      );
    },

    reads(inputs: readonly string[]): string {
      return trans.__('reads %1', inputs.join(', '));
    },

    runsWith(environment: string): string {
      return trans.__('runs with %1', environment);
    },

    isTold(secrets: readonly string[]): string {
      return trans.__('is told the secrets %1', secrets.join(', '));
    },

    sets(variables: readonly string[]): string {
      return trans.__('variables %1', variables.join(', '));
    },

    linksTo(links: readonly string[]): string {
      return trans.__('links from your home %1', links.join(', '));
    },

    /** Each job's in a folder of its own there. */
    resultsTo(folder: string): string {
      return trans.__(
        'results come to %1',
        folder === '.' ? 'results/' : `${folder}/results/`
      );
    },

    /** Fields as they stand in the file. */
    alsoSays(others: readonly string[]): string {
      return trans.__('also says %1', others.join(' · '));
    },

    takesAlong(folder: string, count: number, size: string): string {
      const place = folder || trans.__('this server’s folder');
      return trans._n(
        'Goes along: %1 file of %2, %3.',
        'Goes along: %1 files of %2, %3.',
        count,
        place,
        size
      );
    },

    staysHere(shown: string, more: number): string {
      return more > 0
        ? trans.__('Stays here: %1 and %2 more.', shown, more)
        : trans.__('Stays here: %1.', shown);
    },

    leftOut(isLinked: boolean): string {
      return isLinked
        ? trans.__(
            'What stays here is linked from your home: steps read it where it lies, and what they write into it changes your own files.'
          )
        : trans.__(
            'Steps cannot read what stays here. A step with left_out: link has it linked from your home.'
          );
    },

    pipelineState({ state, retry_from: from }: IPipeline): string {
      if (state === 'failed' && from) {
        return trans.__('failed at %1', from);
      }
      return (
        {
          running: trans.__('running'),
          succeeded: trans.__('finished'),
          failed: trans.__('failed'),
          cancelled: trans.__('cancelled')
        }[state] ?? state
      );
    },

    stepState({ state, job_state: job, started_ms: begun }: IStep): string {
      // One that has begun was stopped for another, and goes on.
      const waits =
        begun == null ? trans.__('in line') : trans.__('stopped, in line');
      const ofJob =
        { queued: waits, nominated: waits, pausing: trans.__('stopping') }[
          job ?? ''
        ] ??
        msg.stateWord(job ?? '') ??
        waits;
      return (
        {
          waiting: trans.__('waiting'),
          submitted: ofJob,
          succeeded: trans.__('finished'),
          failed: trans.__('failed'),
          cancelled: trans.__('cancelled'),
          refused: trans.__('refused'),
          blocked: trans.__('blocked'),
          skipped: trans.__('skipped')
        }[state] ?? state
      );
    },

    done({ steps }: IPipeline): string {
      const count = steps.filter(each => each.state === 'succeeded').length;
      return trans.__('%1 of %2 steps done', count, steps.length);
    },

    submitted({ submitted_ms: from, ended_ms: to }: IPipeline): string {
      return to == null
        ? trans.__('submitted %1', clock(from))
        : trans.__(
            'submitted %1, ended %2, took %3',
            clock(from),
            clock(to),
            duration(to - from)
          );
    },

    /** `02:10–02:58`. */
    span({ started_ms: from, ended_ms: to }: IStep): string {
      if (from == null) {
        return '';
      }
      return to == null
        ? trans.__('since %1', clock(from))
        : `${clock(from)}–${clock(to)}`;
    },

    /** What is kept, and what a retry begins anew. */
    keeps({ steps }: IPipeline): string {
      const kept = steps.filter(each => each.state === 'succeeded');
      return kept.length === 0
        ? trans.__('Nothing has finished before.')
        : trans.__(
            'Kept: what %1 left.',
            kept.map(each => each.name).join(', ')
          );
    },

    cancelTitle(name: string): string {
      return trans.__('Cancel %1?', name);
    },

    cancelBody(): string {
      return trans.__(
        'Steps that run are stopped for good, and those that need them do not start. What has finished stays.'
      );
    }
  };
}
