/** Sentences about a notebook whose GPU memory is on the host. They come with the tile that says them. */
import { clock, duration } from '../text/format';
import type { Messages } from '../text/messages';

export function parkedMessages(msg: Messages) {
  const { trans } = msg;
  return {
    title(milliGpu: number): string {
      return trans.__('Parked, %1', msg.gpuCount(milliGpu));
    },

    since(parkedMs: number): string {
      return trans.__(
        'Since %1 its GPU memory is on the host, and its GPU is free for others. Variables are as they were.',
        clock(parkedMs)
      );
    },

    runToHaveItBack(): string {
      return trans.__('Run a cell to have the GPU back.');
    },

    waits(milliGpu: number): string {
      return trans.__('Parked: waits for %1', msg.gpuCount(milliGpu));
    },

    inLine(position: number, waitedMs: number): string {
      return waitedMs < 1000
        ? trans.__(
            '%1 in line. Its cell goes on by itself.',
            msg.ordinal(position)
          )
        : trans.__(
            '%1 in line, waiting for %2. Its cell goes on by itself.',
            msg.ordinal(position),
            duration(waitedMs)
          );
    },

    likely(span: string): string {
      return trans.__('Likely in %1.', span);
    },

    park(): string {
      return trans.__('Park');
    },

    whatParkDoes(): string {
      return trans.__(
        'Move its GPU memory to the host, so that others have the GPU until a cell runs. Variables stay.'
      );
    },

    isBeingParked(): string {
      return trans.__('Being parked: its GPU memory goes to the host.');
    },

    notParked(because: string): string {
      return trans.__('Not parked when it was tried: %1.', because);
    },

    interrupt(): string {
      return trans.__('Interrupt the kernel to wait no longer.');
    },

    stale(): string {
      return trans.__('This may have changed: the scheduler is not there.');
    }
  };
}
