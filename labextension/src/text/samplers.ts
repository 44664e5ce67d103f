/** Who draws the settings of a sweep, as the form and its page call them. */
import type { TranslationBundle } from '@jupyterlab/translation';

export function samplers(
  trans: TranslationBundle
): { value: string; label: string }[] {
  return [
    { value: 'tpe', label: trans.__('TPE: learns from what was tried') },
    { value: 'random', label: trans.__('Random') },
    { value: 'grid', label: trans.__('Grid: each combination') }
  ];
}
