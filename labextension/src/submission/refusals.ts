/** Which field of *More…* a refusal of the scheduler is about: it is told there. Pure. */
import { parseLines } from './lines';
import type { ITrainForm } from './request';

export type RefusedField = 'variables' | 'secrets' | 'name';

/** `The variable LD_PRELOAD may not be set: …`, and a mistake in the value of one. */
const VARIABLE = /(?:\bvariable |^env\.)(\w+)/;

export function refusedField(
  problem: string | null,
  form: ITrainForm
): RefusedField | null {
  const variable = VARIABLE.exec(problem ?? '')?.[1];
  if (variable !== undefined) {
    for (const field of ['variables', 'secrets'] as const) {
      if (variable in parseLines(form[field], field === 'secrets').found) {
        return field;
      }
    }
  }
  return problem?.startsWith('name: ') ? 'name' : null;
}
