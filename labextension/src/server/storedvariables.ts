/** Variables that kernels of earlier servers stored when these were stopped. */
import type { Api } from './api';

export interface ILost {
  name: string;
  because: string;
}

export interface IStored {
  kernel_id: string;
  /** The notebook; empty where the kernel had none. */
  path: string;
  kept: string[];
  lost: ILost[];
  size_bytes: number;
  until_ms: number;
  loaded_ms: number | null;
}

export interface ILoaded {
  loaded: string[];
  failed: ILost[];
  /** Why it ended before its end; empty where it did not. */
  because: string;
}

/** Load what one kernel stored into another; it runs code that was stored with it. */
export async function loadStored(
  api: Pick<Api, 'request'>,
  stored: string,
  kernel: string
): Promise<ILoaded> {
  const answer = await api.request<{ result: ILoaded }>(
    'POST',
    ['stored-variables'],
    { stored, kernel }
  );
  return answer.result;
}
