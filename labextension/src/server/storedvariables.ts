/** Variables that kernels of earlier servers stored when these were stopped. */
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
