/** What a profile changes of the form, what the job then asks for, and a profile made of the form. */
import { expect, it } from 'vitest';

import type { IProfile } from '../server/profiles';
import { fakeApi } from '../testing/sockets';
import { leaving, profileOf, taking } from './profile';
import { EMPTY_FORM, jobRequest, submission } from './request';
import { TrainModel } from './train';

const PROFILE: IProfile = {
  team: 'vision',
  name: 'ddp',
  description: 'Two GPUs',
  callback_line: '',
  job: {
    launcher: 'torchrun',
    environment: 'torch',
    workers: 2,
    max_workers: 4,
    milli_gpu: 1000,
    max_price: 1.5,
    memory_mib: 8192,
    data: ['images'],
    env: { LR: '0.1' },
    gpu_kind: 'A100-40',
    secrets: { HF_TOKEN: 'hugging-face' }
  },
  published_by: 'ada',
  steerable: false
};

function made(): TrainModel {
  const train = new TrainModel(fakeApi(), () => false);
  const none = { savedMs: null, isDirty: false };
  const save = () => Promise.resolve();
  train.setCandidates(['a.py', 'b.py'].map(path => ({ ...none, path, save })));
  return train;
}

it('asks for what the profile says, and leaves what it does not say', () => {
  const train = made();
  train.update({ maxRunS: 60, priority: 'high' });
  train.start(taking(PROFILE, train.form));
  const { request } = submission(train.form, 'a.py');
  expect(request).toMatchObject({
    team: 'vision',
    launcher: 'torchrun',
    environment: 'torch',
    max_workers: 4,
    min_workers: 2,
    max_run_s: 60,
    max_price: 1.5,
    priority: 'high',
    data: ['images'],
    env: { LR: '0.1' },
    secrets: { HF_TOKEN: 'hugging-face' },
    labels: { profile: 'ddp' },
    roles: [
      {
        count: 2,
        milli_gpu: 1000,
        gpu_kind: 'A100-40',
        memory_mib: 8192,
        name: 'worker'
      }
    ]
  });
});

it('stays when another file is chosen, and goes when none is', () => {
  const train = made();
  train.start(taking(PROFILE, train.form));
  train.choose('b.py');
  expect(submission(train.form, 'b.py').request).toMatchObject({
    environment: 'torch',
    labels: { profile: 'ddp' }
  });
  train.start({ profile: undefined });
  expect(train.form.source).toEqual({ kind: 'file', path: 'b.py' });
  expect(jobRequest(train.form)).not.toHaveProperty('labels');
});

it('runs what the profile runs, without any file, until none is chosen', () => {
  const train = made();
  const command = ['python', '-m', 'team.train'];
  const job = { ...PROFILE.job, command };
  train.start(taking({ ...PROFILE, job }, train.form));
  expect(train.form.source).toEqual({ kind: 'profile', key: 'vision/ddp' });
  expect(jobRequest(train.form)).toMatchObject({
    name: 'ddp',
    roles: [{ command }]
  });
  expect(profileOf(train.form).command).toEqual(command);
  train.setCandidates(train.candidates);
  expect(train.form.source?.kind).toBe('profile');
  train.start({ profile: undefined });
  expect(train.form.source).toEqual({ kind: 'file', path: 'a.py' });
});

it('is published as it was taken', () => {
  const form = { ...EMPTY_FORM, maxRunS: null };
  const { job } = PROFILE;
  expect(profileOf({ ...form, ...taking(PROFILE, form) })).toEqual({
    ...job,
    min_workers: 2,
    cpu_milli: 1000,
    priority: 'normal',
    over_quota: true,
    exit_after_signal: 'preempted'
  });
});

it('leaves the form as it was without a profile, but for what was typed since', () => {
  const train = made();
  train.update({ workers: 1, minWorkers: 1, maxWorkers: 1, memoryGib: 16 });
  const { workers, launcher, secrets } = train.form;
  train.start(taking(PROFILE, train.form));
  const other = { ...PROFILE, name: 'one', job: { cpu_milli: 3000 } };
  train.start(taking(other, train.form));
  expect(train.form).toMatchObject({ workers, memoryGib: 16, cpus: 3 });
  train.start(taking(PROFILE, train.form));
  train.update({ memoryGib: 12 });
  train.start(leaving(train.form));
  expect(train.form).toMatchObject({ workers, launcher, secrets });
  expect(train.form).toMatchObject({ maxWorkers: 1, memoryGib: 12, cpus: 1 });
  expect(train.form.profile).toBeUndefined();
});

it('leaves no file with the environment of a profile that it had for a while', () => {
  const train = made();
  const job = { command: ['python', '-m', 'team.train'] };
  train.start(taking(PROFILE, train.form));
  train.start(taking({ ...PROFILE, name: 'ready', job }, train.form));
  train.start(leaving(train.form));
  expect(train.form.source).toEqual({ kind: 'file', path: 'a.py' });
  expect(train.form.environment).toBe('');

  train.start(taking(PROFILE, train.form));
  train.choose('b.py');
  train.choose('a.py');
  expect(train.form.environment).toBe('torch');
  train.choose('b.py');
  train.start(leaving(train.form));
  train.choose('a.py');
  expect(train.form.environment).toBe('');
});

it('gives each file back its own environment, not the one of the file before', () => {
  const train = made();
  train.start({ environment: 'jax' });
  train.start(taking(PROFILE, train.form));
  train.choose('b.py');
  expect(train.form.environment).toBe('torch');
  train.start(leaving(train.form));
  expect(train.form.environment).toBe('');

  train.start(taking(PROFILE, train.form));
  train.choose('a.py');
  train.start(leaving(train.form));
  expect(train.form.environment).toBe('jax');
});
