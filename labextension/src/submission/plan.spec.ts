/** A short run of a plan, and the form that goes on without it. */
import { expect, it } from 'vitest';

import type { IPlan } from '../server/plans';
import { makeJob } from '../testing/make';
import { fakeApi } from '../testing/sockets';
import { startWith } from '../trainform/profiles';
import { tryPlan } from './plan';
import { TrainModel } from './train';

const PLAN = {
  id: 'p-1',
  milli_gpu: 1000,
  workers: 1,
  launcher: 'plain',
  pool: 'train',
  run_s: { low: 60, high: 120 }
} as IPlan;

const PROFILE = {
  team: 'vision',
  name: 'ddp',
  description: '',
  callback_line: '',
  job: { workers: 2 },
  published_by: 'ada',
  steerable: false
};

const OWN = { maxRunS: 7200, priority: 'high', overQuota: false } as const;

it.each<[string, (train: TrainModel) => unknown]>([
  [
    'another file',
    train => {
      train.choose('b.py');
    }
  ],
  [
    'a profile',
    train => {
      startWith(train, PROFILE);
      expect(train.form.workers).toBe(2);
    }
  ],
  [
    'a profile that is left again',
    train => {
      startWith(train, { ...PROFILE, job: { priority: 'normal' } });
      startWith(train);
    }
  ],
  [
    'a submit without its plan',
    train => {
      train.update({ plan: '' });
      return train.send(() => Promise.resolve(makeJob()));
    }
  ],
  [
    'a job that ran before, and a file',
    train => {
      train.prefill(makeJob({ request: { roles: [], priority: 'low' } }));
      expect(train.beforeTrial).toBeNull();
      train.choose('b.py');
      train.update(OWN);
    }
  ]
])(
  'leaves nothing of a trial in a form that goes on with %s',
  async (_, go) => {
    const train = new TrainModel(fakeApi(), () => false);
    const none = { savedMs: null, isDirty: false };
    const save = () => Promise.resolve();
    train.setCandidates(
      ['a.py', 'b.py'].map(path => ({ ...none, path, save }))
    );
    train.update(OWN);
    tryPlan(train, PLAN);
    expect(train.form).toMatchObject({ maxRunS: 300, priority: 'low' });
    await go(train);
    expect(train.form).toMatchObject(OWN);
  }
);
