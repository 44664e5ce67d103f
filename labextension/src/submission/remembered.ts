/** Environments that were chosen for files, for the time after Lab's page is loaded anew. */
import { PageConfig } from '@jupyterlab/coreutils';

import type { TrainModel } from './train';

/** Files that are remembered: the newest. */
const MOST = 50;

type Chosen = Record<string, string>;

/** A hub's users may share one origin. */
function place(): string {
  return `gpucommons:environments:${PageConfig.getOption('baseUrl')}`;
}

function chosen(): Chosen {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(place()) ?? '{}');
    return found !== null && typeof found === 'object' ? (found as Chosen) : {};
  } catch {
    return {}; // another program's, or a browser that keeps nothing
  }
}

/** Of this file from now on; empty = its own. */
export function remember(path: string, environment: string): void {
  const others = Object.entries(chosen()).filter(([each]) => each !== path);
  const all = environment ? [...others, [path, environment]] : others;
  try {
    const kept = JSON.stringify(Object.fromEntries(all.slice(-MOST)));
    localStorage.setItem(place(), kept);
  } catch {
    // Then it is chosen once more.
  }
}

/** Take what was chosen for the form's file, where it is still there and nothing else was chosen. */
export function recall(train: TrainModel): void {
  const { form, environments } = train;
  if (form.source?.kind !== 'file' || form.environment || form.profile) {
    return;
  }
  const found = chosen()[form.source.path];
  const known = environments?.environments ?? [];
  if (found && known.some(each => each.environment === found)) {
    // Nobody has typed: another file that comes to the front may still take the form.
    train.form = { ...form, environment: found };
    train.refreshQuote();
    train.changed.emit();
  }
}
