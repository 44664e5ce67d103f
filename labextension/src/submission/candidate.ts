/** A document that is open and could run as a job. */
import type { ISignal } from '@lumino/signaling';

/** What the page offers as "What to run"; kept up to date by whoever knows the open documents. */
export interface ICandidate {
  path: string;
  savedMs: number | null;
  isDirty: boolean;
  /** What a notebook's cells of code say now. */
  sources?: () => string[];
  /** Something in it is another: the unsaved are not asked for anew by each edit. */
  edited?: ISignal<unknown, unknown>;
  save(): Promise<void>;
}

/** Functions of a notebook that can be run as a job: they take `resume_dir` first. */
export function trainFunctions(sources: readonly string[]): string[] {
  const found = sources.flatMap(source =>
    [...source.matchAll(/^def\s+([A-Za-z_]\w*)\s*\(\s*resume_dir\b/gm)].map(
      match => match[1] ?? ''
    )
  );
  return [...new Set(found)];
}
