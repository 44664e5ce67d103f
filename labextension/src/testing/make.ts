/** Views as the server sends them, with believable defaults, so that a test shows what matters. */
import { nullTranslator } from '@jupyterlab/translation';

import { messages } from '../text/messages';
import {
  IAttempt,
  IForecast,
  IJob,
  ILease,
  IUsageSample
} from '../server/types';

export const msg = messages(nullTranslator.load('gpucommons'));

export function makeJob(changes: Partial<IJob> = {}): IJob {
  return {
    id: 'j-1',
    name: 'digits-7',
    kind: 'training',
    team: 'vision',
    owner: 'ada',
    state: 'running',
    hold_class: 'guaranteed',
    pools: ['train'],
    milli_gpu: 2000,
    workers: 1,
    priority: 'normal',
    over_quota: true,
    submitted_ms: 0,
    since_ms: 0,
    attempts: [],
    held_milli_gpu_s: 0,
    lost_milli_gpu_s: 0,
    simulated: false,
    ...changes
  };
}

export function makeForecast(changes: Partial<IForecast> = {}): IForecast {
  return {
    made_ms: 0,
    from_ms: 600_000,
    to_ms: 1_500_000,
    right_of_ten: 8,
    text: '',
    ways: [],
    ...changes
  };
}

export function makeAttempt(changes: Partial<IAttempt> = {}): IAttempt {
  return {
    id: 'a-1',
    number: 1,
    state: 'running',
    hold_class: 'guaranteed',
    nodes: ['n1'],
    milli_gpu: 2000,
    reserved_ms: 0,
    started_ms: 0,
    ...changes
  };
}

export function makeLease(changes: Partial<ILease> = {}): ILease {
  return {
    id: 'l-1',
    team: 'vision',
    state: 'active',
    milli_gpu: 500,
    slice: {
      slice_id: 's-1',
      node: 'n1',
      gpu_kind: 'A100-40',
      milli_gpu: 500,
      memory_mib: 1024,
      isolation: 'none',
      simulated: true
    },
    idle: { keeps_left: 2, idle_after_min: 60, warn_after_min: 50 },
    ...changes
  };
}

export function makeSample(
  at_ms: number,
  compute_percent: number | null = 50
): IUsageSample {
  return {
    at_ms,
    compute_percent,
    memory_used_mib: 512,
    memory_limit_mib: 1024,
    simulated: false
  };
}
