import { describe, expect, it } from 'vitest';

import {
  EMPTY_FORM,
  formOfJob,
  jobRequest,
  parseSecrets,
  offeredSizes,
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

  it.each(['HF_TOKEN=hf_AbC123', 'HF_TOKEN=hugging=face', 'HF_TOKEN='])(
    'refuse what looks like a value: %s',
    line => {
      expect(parseSecrets(line).wrong).toBe(line);
    }
  );
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
      team: null,
      min_workers: null,
      roles: [{ count: 1, milli_gpu: 500, memory_mib: 2048 }]
    });
    const sent = submission({ ...form, functionName: 'train' }, 'x.ipynb');
    expect(sent).toMatchObject({ path: 'x.ipynb', function: 'train' });
    expect(sent.request).not.toHaveProperty('name');
    const named = submission({ ...form, name: 'mine' }, 'x.ipynb');
    expect(named.request.name).toBe('mine');
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
    const form = { ...formOfJob(job), milliGpu: 2000 };

    expect(jobRequest(form)).toMatchObject({
      snapshot: 'abc',
      roles: [{ name: 'chief', milli_gpu: 2000, command: ['python', 'x.py'] }]
    });
  });
});

describe('a job that was gone on from somewhere', () => {
  it('begins anew when it is asked for once more', () => {
    const job = makeJob({ request: { roles: [], resume_from: 'older' } });

    expect(jobRequest(formOfJob(job)).resume_from).toBeNull();
  });
});

describe('sizes and arguments', () => {
  it('offer what the scheduler offers to the team, and what is chosen', () => {
    const few = { name: 'vision', mine: true, use: [], sizes: [0, 1000, 3000] };
    const many = { name: 'nlp', mine: true, use: [], sizes: [0, 8000] };

    expect(offeredSizes('vision', [few, many], 1000)).toEqual([0, 1000, 3000]);
    expect(offeredSizes('', [few, many], 1000)).toEqual([0, 1000, 3000, 8000]);
    expect(offeredSizes('nlp', [few, many], 500)).toEqual([0, 500, 8000]);
  });

  it('send the arguments of a script as they were written', () => {
    const form = { ...EMPTY_FORM, arguments: "--name 'a b'" };
    expect(submission(form, 'a.py').arguments).toBe("--name 'a b'");
    expect(submission(EMPTY_FORM, 'a.py')).not.toHaveProperty('arguments');
  });
});

describe('functions', () => {
  it('finds functions that can go on from a folder', () => {
    const cells = [
      'def train(resume_dir):\n  pass',
      'def other(x): pass\nclass A:\n  def m(resume_dir): pass',
      'def fit( resume_dir, epochs=3):\n  pass'
    ];

    expect(trainFunctions(cells)).toEqual(['train', 'fit']);
  });
});
