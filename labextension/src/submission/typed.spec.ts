/** What people write into the *Train* form stays there. */
import { describe, expect, it, vi } from 'vitest';

import { makeJob } from '../testing/make';
import { fakeApi } from '../testing/sockets';
import type { ICandidate } from './candidate';
import { TrainModel } from './train';
import { IFilesPreview } from '../server/types';

let sent: string[] = [];

const FILES: IFilesPreview = {
  path: 'a.py',
  files: [],
  size_bytes: 0,
  excluded: [],
  packages: [],
  environment: '/envs/torch',
  environment_name: 'torch (Python 3.12)',
  parameters: null,
  advice: [],
  proposal: {
    launcher: 'plain',
    why: 'no framework that we know is started in a.py'
  },
  results_to: 'project'
};

function train(files: Partial<IFilesPreview> = {}): TrainModel {
  sent = [];
  return new TrainModel(
    fakeApi((url, init) => {
      const answer = url.includes('/files?')
        ? { ...FILES, ...files }
        : url.includes('/environments')
          ? { kind: 'folder', environments: [] }
          : makeJob();
      if (typeof init.body === 'string') {
        sent.push(`${url} ${init.body}`);
      }
      return new Response(JSON.stringify(answer), { status: 200 });
    }),
    () => true
  );
}

function file(path: string): ICandidate {
  return {
    path,
    savedMs: null,
    isDirty: false,
    save: () => Promise.resolve()
  };
}

describe('what is typed', () => {
  it.each<[string, (model: TrainModel) => void]>([
    [
      'a text',
      model => {
        model.update({ arguments: '--epochs 5' });
      }
    ],
    [
      'a number',
      model => {
        model.type('cpus', '3');
      }
    ],
    [
      'half a number',
      model => {
        model.type('workers', '');
      }
    ]
  ])('stays when another tab comes to the front: %s', (_what, write) => {
    const model = train();
    model.setCandidates([file('a.py')]);
    write(model);
    const { form, typed } = model;
    model.setCandidates([file('b.py'), file('a.py')]);

    expect([model.form, model.typed]).toEqual([form, typed]);
  });

  it('stays while the page is still opening its tabs', () => {
    const model = train();
    model.setCandidates([file('a.py')]);
    model.update({ arguments: '--epochs 5' });
    for (const path of ['b.py', 'c.py']) {
      model.setCandidates([file(path), file('a.py')]);
    }
    model.setCandidates([]);

    expect(model.form.arguments).toBe('--epochs 5');
    expect(model.form.source).toEqual({ kind: 'file', path: 'a.py' });
  });

  it('is there again with its file', () => {
    const model = train();
    model.setCandidates([file('a.py'), file('b.py')]);
    model.update({ arguments: '--epochs 5' });
    model.choose('b.py');
    expect(model.form.arguments).toBe('');
    model.choose('a.py');
    expect(model.form.arguments).toBe('--epochs 5');
  });

  it('is sent, and the next form is of the tab in front again', async () => {
    const model = train();
    model.setCandidates([file('a.py')]);
    model.update({ arguments: '--epochs 5' });
    model.setCandidates([file('b.py'), file('a.py')]);
    await model.submit();
    const body = sent.find(each => each.includes('submit-file'));
    expect(body).toContain('--epochs 5');
    expect(body).toContain('"path":"a.py"');

    model.setCandidates([file('b.py'), file('a.py')]);
    expect(model.form.source).toEqual({ kind: 'file', path: 'b.py' });
  });
});

describe('what stays behind', () => {
  const excluded = [
    { path: 'data.bin', size_bytes: 1, reason: 'is large', linkable: true },
    { path: '.env', size_bytes: 1, reason: 'is hidden', linkable: false }
  ];

  it('is asked about before anything is sent', async () => {
    const model = train({ excluded });
    model.setCandidates([file('a.py')]);
    expect(model.mustChoose).toBe(false);
    await model.loadFiles();
    expect([model.leftBehind, model.mustChoose]).toEqual([['data.bin'], true]);
    expect(await model.submit()).toBeNull();

    model.update({ leftOut: 'link' });
    await model.submit();
    expect(sent.find(each => each.includes('submit-file'))).toContain(
      '"left_out":"link"'
    );
  });
});

describe('several workers', () => {
  const advice = [{ text: 'Starts torch.', launchers: ['torchrun'] }];

  it('are warned of where a framework lacks its launcher', async () => {
    const proposal = { launcher: 'torchrun', why: 'it starts torch' };
    const model = train({ advice, proposal });
    model.setCandidates([file('a.py')]);
    await model.loadFiles();
    expect(model.advice).toEqual([]);
    model.update({ workers: 2 });
    expect([model.launcher, model.advice]).toEqual(['torchrun', []]);
    model.update({ launcher: 'plain' });
    expect(model.advice).toEqual(['Starts torch.']);
    model.update({ launcher: 'torchrun' });
    expect(model.advice).toEqual([]);
  });
});

it('asks for the quota with the launcher that is proposed, and submits without naming it', async () => {
  vi.useFakeTimers();
  const model = train({ proposal: { launcher: 'mpi', why: 'it starts MPI' } });
  model.setCandidates([file('a.py')]);
  await model.loadFiles();
  model.update({ workers: 2 });
  await vi.runAllTimersAsync();
  expect(sent.some(each => /\/quote.*"launcher":"mpi"/s.test(each))).toBe(true);
  await model.submit();
  vi.useRealTimers();
  expect(sent.find(each => each.includes('/submit'))).toContain(
    '"launcher":"auto"'
  );
});

describe('the environment', () => {
  it('is asked for as it will be, and left to the server where none is chosen', async () => {
    const model = train();
    model.setCandidates([file('a.py')]);
    await model.loadFiles();
    await model.loadEnvironments();
    await model.submit();
    const submitted = sent.find(each => each.includes('submit-file'));
    expect(submitted).toContain('"environment":""');

    model.update({ environment: '/envs/other' });
    await model.submit();
    expect(sent.at(-1)).toContain('"environment":"/envs/other"');
  });
});
