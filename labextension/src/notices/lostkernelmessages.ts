/** Sentences about kernels that began anew or came back. They come with the banners that say them. */
import { dayAndMonth } from '../text/format';
import type { Messages } from '../text/messages';

/** What Lab puts behind the name of a console, to tell it from others. */
const UUID = /-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Each name once, with how many kernels it has where those are several. */
function namesOf(paths: readonly string[]): string[] {
  const counts = new Map<string, number>();
  for (const name of paths.map(path => path.replace(UUID, ''))) {
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  counts.delete('');
  return Array.from(counts, ([name, count]) =>
    count > 1 ? `${name} (${count})` : name
  );
}

export function lostKernelMessages({ trans }: Messages) {
  return {
    kernelLost(because: string, stored: number): string {
      return stored > 0
        ? trans._n(
            'The kernel of this notebook could not be kept. %2 %1 of its variables was stored.',
            'The kernel of this notebook could not be kept. %2 %1 of its variables were stored.',
            stored,
            because
          )
        : trans.__(
            'The variables of this notebook are gone: its kernel could not be kept. %1 Run the cells that you need again.',
            because
          );
    },

    kernelWaits(because: string, untilMs: number): string {
      return trans.__(
        'The kernel of this notebook is kept until %1, and a new one runs in its place. %2 The next start of the server that can wake it brings it back.',
        dayAndMonth(untilMs),
        because
      );
    },

    kernelParked(because: string): string {
      return trans.__(
        'The kernel of this notebook is back, but not its GPU memory. %1 A cell that uses the GPU waits.',
        because
      );
    },

    /** At the start of Lab. */
    kernelsBack(paths: readonly string[], moved: boolean): string {
      const text = moved
        ? trans._n(
            'Moved to another node, your kernel is back.',
            'Moved to another node, your %1 kernels are back.',
            paths.length
          )
        : trans._n(
            'Your kernel is back, with its variables.',
            'Your %1 kernels are back, with their variables.',
            paths.length
          );
      const named = namesOf(paths).join(', ');
      return named ? `${text} ${named}` : text;
    }
  };
}
