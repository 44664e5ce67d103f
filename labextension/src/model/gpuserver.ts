/** The token of what all our plugins share. */
import { Token } from '@lumino/coreutils';

import type { Messages } from '../text/messages';
import type { Model } from './model';

export interface IGpuServer {
  model: Model;
  msg: Messages;
}

export const IGpuServer = new Token<IGpuServer>(
  'gpucommons:IGpuServer',
  'What is known of GPUs, jobs and the notebook server itself.'
);
