/** A kernel that could not be kept: its variables are gone. */
export interface ILostKernel {
  kernel_id: string;
  /** Of its notebook; empty where it belonged to none. */
  path: string;
  /** What stood in the way, in a sentence. */
  because: string;
}
