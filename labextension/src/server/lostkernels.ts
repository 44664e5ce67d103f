/** What a stop keeps of kernels. */
export type Keeps = 'kernels' | 'variables' | 'nothing';

/** A kernel that could not be kept, or could not be woken now. */
export interface ILostKernel {
  kernel_id: string;
  /** Of its notebook; empty where it belonged to none. */
  path: string;
  /** What stood in the way, in a sentence. */
  because: string;
  /** How many of its variables were stored all the same. */
  stored: number;
  /** Until when it waits for a start that can wake it; 0 where its variables are gone. */
  kept_until_ms: number;
}

/** A kernel that came back as it was when its server stopped. */
export interface IWokenKernel {
  kernel_id: string;
  path: string;
  at_ms: number;
  /** Why its GPU memory is not on a GPU, in a sentence; empty where it is, or there was none. */
  parked: string;
  /** It was saved on another node. */
  moved: boolean;
}
