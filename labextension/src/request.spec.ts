import { describe, expect, it } from 'vitest';

import {
  defaultName,
  EMPTY_FORM,
  formOfJob,
  jobRequest,
  parseSecrets,
  sizesUpTo,
  submission,
  trainFunctions
} from './request';
import { makeJob } from './testing/make';

describe('secrets', () => {
  it('are names, with the variable first or made from the name', () => {
    expect(
      parseSecrets('HF_TOKEN=hugging-face\n\n wandb-key ').secrets
    ).toEqual({
      HF_TOKEN: 'hugging-face',
      WANDB_KEY: 'wandb-key'
    });
  });

  it('refuse what looks like a value', () => {
    expect(parseSecrets('HF_TOKEN=hf_AbC123').wrong).toBe('HF_TOKEN=hf_AbC123');
  });
});

describe('the form becomes a request', () => {
  it('asks for one worker of whole or part GPUs', () => {
    const form = {
      ...EMPTY_FORM,
      source: { kind: 'file', path: 'a/Train digits.ipynb' } as const,
      milliGpu: 500
    };
    const request = jobRequest(form);

    expect(request).toMatchObject({
      name: 'train-digits',
      team: null,
      min_workers: null,
      roles: [{ count: 1, milli_gpu: 500, memory_mib: 2048 }]
    });
    expect(
      submission({ ...form, functionName: 'train' }, 'x.ipynb')
    ).toMatchObject({ path: 'x.ipynb', function: 'train' });
  });

  it('says the bounds of an elastic job only when they differ', () => {
    const form = { ...EMPTY_FORM, workers: 4, minWorkers: 2 };

    expect(jobRequest(form)).toMatchObject({ min_workers: 2, max_workers: 4 });
    expect(jobRequest({ ...form, minWorkers: 4 }).max_workers).toBeNull();
  });

  it('takes command and snapshot of a job that is asked for again', () => {
    const role = {
      name: 'chief',
      count: 1,
      milli_gpu: 4000,
      cpu_milli: 4000,
      memory_mib: 8192,
      command: ['python', 'x.py']
    };
    const job = makeJob({ request: { roles: [role], snapshot: 'abc' } });
    const form = formOfJob(job, 2000);

    expect(form.replaces).toBe(true);
    expect(formOfJob(job, null).replaces).toBe(false);
    expect(jobRequest(form)).toMatchObject({
      snapshot: 'abc',
      roles: [{ name: 'chief', milli_gpu: 2000, command: ['python', 'x.py'] }]
    });
  });
});

describe('sizes and arguments', () => {
  it('offer what the team may hold, and three where four is the most', () => {
    expect(sizesUpTo(4000)).toEqual([0, 250, 500, 1000, 2000, 3000, 4000]);
    expect(sizesUpTo(2000)).toEqual([0, 250, 500, 1000, 2000]);
    expect(sizesUpTo(null)).toContain(8000);
  });

  it('send the arguments of a script as they were written', () => {
    const form = { ...EMPTY_FORM, arguments: "--name 'a b'" };
    expect(submission(form, 'a.py').arguments).toBe("--name 'a b'");
    expect(submission(EMPTY_FORM, 'a.py')).not.toHaveProperty('arguments');
  });
});

describe('names and functions', () => {
  it.each([
    ['train_digits.py', 'train-digits'],
    ['Über_2.ipynb', 'ber-2'],
    ['日本.py', 'job']
  ])('%s → %s', (path, name) => {
    expect(defaultName(path)).toBe(name);
  });

  it('finds functions that can go on from a folder', () => {
    const cells = [
      'def train(resume_dir):\n  pass',
      'def other(x): pass\nclass A:\n  def m(resume_dir): pass',
      'def fit( resume_dir, epochs=3):\n  pass'
    ];

    expect(trainFunctions(cells)).toEqual(['train', 'fit']);
  });
});
