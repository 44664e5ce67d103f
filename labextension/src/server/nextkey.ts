/** Under which key what was asked for is asked for again. */
import { UUID } from '@lumino/coreutils';

import { isRefusal } from './api';

/** Pressed again after a lost answer it is the same wish; after a refusal it is another one. */
export function nextKey(key: string, error: unknown): string {
  return isRefusal(error) ? UUID.uuid4() : key;
}
