import { describe, expect, it } from 'vitest';

import {
  EMPTY_FORM,
  formOfJob,
  jobRequest,
  mistakesIn,
  sized,
  submission
} from './request';
import { trainFunctions } from './candidate';
import { asLines, parseLines } from './lines';
import { makeJob } from '../testing/make';
import NAMES from '../testing/names.json';
import SENT from '../testing/submission.json';

describe('secrets', () => {
  it('are names, with the variable first or made from the name', () => {
    expect(parseLines('HF_TOKEN=hugging-face\n\n wandb-key ', true)).toEqual({
      found: { HF_TOKEN: 'hugging-face', WANDB_KEY: 'wandb-key' },
      wrong: null
    });
  });

  it.each(['HF_TOKEN=hf_AbC123', 'HF_TOKEN=hugging=face', 'HF_TOKEN='])(
    'refuse what looks like a value: %s',
    line => {
      expect(parseLines(line, true).wrong).toBe(line);
    }
  );
});

describe('variables', () => {
  const several = { PATHS: 'a\nb', EMPTY: '', SPACED: ' x', RUN: 'a=b c' };

  it('are taken as they are typed, with all behind the first sign of equality', () => {
    const { found } = parseLines('RUN=a=b c\n\n EMPTY= ');
    expect(found).toEqual({ RUN: 'a=b c', EMPTY: '' });
    expect(asLines(found)).toBe('RUN=a=b c\nEMPTY=');
    expect(asLines(several)).toBe('EMPTY=\nRUN=a=b c');
  });

  it.each(['RUN', '=a', '2X=a', 'a b=c'])('are no line such as %j', line => {
    expect(parseLines(line).wrong).toBe(line);
  });

  it('of a job that is run again are all there, those too that no line can say', () => {
    const form = formOfJob(makeJob({ request: { roles: [], env: several } }));
    expect(jobRequest(form).env).toEqual(several);
    const changed = { ...form, variables: 'RUN=b' };
    expect(jobRequest(changed).env).toEqual({
      PATHS: 'a\nb',
      SPACED: ' x',
      RUN: 'b'
    });
  });
});

it('sends the module that is to run in place of the file', () => {
  const form = { ...EMPTY_FORM, module: ' examples.train ' };
  expect(submission(form, 'examples/train.py').module).toBe('examples.train');
  expect(submission(EMPTY_FORM, 'a.py').module).toBeUndefined();
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
    const one = { ...EMPTY_FORM, maxWorkers: 4 };
    expect(jobRequest(one)).toMatchObject({ min_workers: 1, max_workers: 4 });
    expect(jobRequest(one).launcher).toBe('auto');
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

/** The Python test that all ways to submit store the same bytes sends this very file. */
it('sends what the server’s test of all ways to submit takes', () => {
  const form = {
    ...EMPTY_FORM,
    ...sized(EMPTY_FORM, {}, null).form,
    arguments: 'alpha=0.5',
    leftOut: 'link',
    memoryGib: 1,
    name: 'digits',
    noticeSignal: 'SIGUSR1',
    exitAfterSignal: 'success'
  } as const;
  expect(submission(form, 'project/train.ipynb')).toEqual(SENT);
});

describe('GPUs by memory', () => {
  const again = (milli_gpu: number, gpu_memory_mib: number) => {
    const role = { milli_gpu, gpu_memory_mib, count: 1, command: ['a'] };
    const rest = { name: 'worker', cpu_milli: 1000, memory_mib: 1024 };
    const roles = [{ ...rest, ...role }];
    return formOfJob(makeJob({ request: { roles } }));
  };

  it('are asked for in MiB, without a size', () => {
    const [role] = jobRequest({
      ...EMPTY_FORM,
      milliGpu: 0,
      gpuMemoryGib: 19.4
    }).roles;
    expect(role).toMatchObject({ milli_gpu: 0, gpu_memory_mib: 19_866 });
  });

  it('are found anew when the job is asked for again; whole GPUs stay', () => {
    expect(jobRequest(again(500, 12_288)).roles[0]).toMatchObject({
      milli_gpu: 0,
      gpu_memory_mib: 12_288
    });
    expect(jobRequest(again(2000, 40_960)).roles[0]).toMatchObject({
      milli_gpu: 2000,
      gpu_memory_mib: 40_960
    });
  });

  it('give way to a size that is chosen', () => {
    const { form, typed } = sized(
      again(500, 12_288),
      { gpuMemoryGib: 'x' },
      250
    );
    expect(typed).toEqual({});
    expect(jobRequest(form).roles[0]).toMatchObject({
      milli_gpu: 250,
      gpu_memory_mib: null
    });
  });
});

it('keeps what a job said of its stops when it is asked for again', () => {
  const request = {
    roles: [],
    notice_signal: 'none',
    exit_after_signal: 'success'
  } as const;
  const form = formOfJob(makeJob({ request: { ...request, roles: [] } }));
  expect(jobRequest(form)).toMatchObject({
    notice_signal: 'none',
    exit_after_signal: 'success'
  });
});

it('is not called as the sweep that it was a trial of', () => {
  const named = (kind: string | null, name: string) =>
    formOfJob(
      makeJob({
        request: { name, roles: [] },
        part_of: kind === null ? null : { id: 's', kind, name: '', number: 7 }
      })
    ).name;
  expect(named('sweep', 'search-1-7')).toBe('search');
  expect(named('map', 'seeds-2-200')).toBe('seeds');
  expect(named('schedule', 'nightly-4')).toBe('nightly');
  expect(named(null, 'digits-2026-7')).toBe('digits-2026');
});

describe('a job that was gone on from somewhere', () => {
  it('begins anew when it is asked for once more', () => {
    const job = makeJob({ request: { roles: [], resume_from: 'older' } });

    expect(jobRequest(formOfJob(job)).resume_from).toBeNull();
  });
});

describe('arguments', () => {
  it('of a script are sent as they were written', () => {
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

it('sends a price that is one, and keeps the form from going with another', () => {
  const paying = (maxPrice: string) => ({ ...EMPTY_FORM, maxPrice });
  expect(jobRequest(paying(' 1.50 '))).toMatchObject({ max_price: 1.5 });
  expect(jobRequest(paying('')).max_price).toBeNull();
  for (const text of ['cheap', '-1', '1,50']) {
    expect(mistakesIn(paying(text), {})).toEqual([{ field: 'maxPrice' }]);
  }
});

it.each(NAMES)(
  'names a job that runs again as the service does: $name of $parent',
  ({ name, parent, by_itself: byItself }) => {
    const job = makeJob({
      request: { ...makeJob({}).request, name, roles: [] },
      part_of:
        parent === null ? null : { id: 'p', kind: parent, name: 'p', number: 1 }
    });
    expect(formOfJob(job).name).toBe(byItself);
  }
);
