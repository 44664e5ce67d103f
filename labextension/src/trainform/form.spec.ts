/** What the *Train* form says by itself: environment, large files, workers, its own choices. */
import * as React from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, it } from 'vitest';

import { PanelContext } from '../components/context';
import { makeJob, msg } from '../testing/make';
import { fakeApi } from '../testing/sockets';
import type { IEnvironments } from '../server/jobtypes';
import type { IFilesPreview } from '../server/types';
import { TrainModel } from '../submission/train';
import { TrainForm } from './form';

const FILES: IFilesPreview = {
  path: 'a.ipynb',
  files: [],
  size_bytes: 0,
  excluded: [
    { path: 'data.bin', size_bytes: 1, reason: 'is large', linkable: true }
  ],
  packages: [],
  environment: '/envs/torch',
  environment_name: 'torch (Python 3.12)',
  parameters: ['alpha'],
  advice: [{ text: 'Starts torch.', launchers: ['torchrun'] }],
  proposal: { launcher: 'torchrun', why: 'a.py (line 3) starts torch' },
  results_to: 'project'
};

const FOLDERS: IEnvironments = {
  kind: 'folder',
  environments: [
    { environment: '/envs/torch', name: 'Torch', python: '3.12' },
    { environment: '/envs/jax', name: 'jax', python: '3.13' }
  ]
};

function made(): TrainModel {
  const train = new TrainModel(fakeApi(), () => false);
  const none = { savedMs: null, isDirty: false };
  train.setCandidates([
    { ...none, path: 'a.ipynb', save: () => Promise.resolve() }
  ]);
  train.files = FILES;
  train.environments = FOLDERS;
  return train;
}

function drawn(train: TrainModel): string {
  const model = { connection: 'ok', myTeams: [], timeLimits: [7200, null] };
  const context = { model, train, msg, commands: {} };
  const form = React.createElement(TrainForm);
  return renderToStaticMarkup(
    React.createElement(
      PanelContext.Provider,
      { value: context as never },
      form
    )
  );
}

it('names the environment of the kernel, and others once', () => {
  const html = drawn(made());
  expect(html).toContain('Environment, this kernel’s own');
  expect(html.match(/torch \(Python 3.12\)/gi)).toHaveLength(1);
  expect(html).toContain('jax (Python 3.13)');
});

it('shows no environments where there are none to choose', () => {
  const train = made();
  train.environments = { kind: 'image', environments: [] };
  expect(drawn(train)).not.toContain('Environment');
});

it('names the image of the notebook where jobs run in images', () => {
  const train = made();
  const digest = `sha256:${'0123456789ab'.repeat(6).slice(0, 64)}`;
  const image = `registry.example/lab@${digest}`;
  train.environments = { kind: 'image', environments: [], default: image };
  expect(drawn(train)).toContain(
    'image registry.example/lab@sha256:0123456789ab…, the one of this notebook'
  );
});

it.each(['/envs/torch', 'Torch'])(
  'has one entry for the environment of the kernel, also called %s',
  environment => {
    const train = made();
    train.form = { ...train.form, environment };
    const [field = ''] =
      /id="gc-environment".*?<\/select>/s.exec(drawn(train)) ?? [];
    expect(field.match(/torch/gi)).toHaveLength(1);
    expect(field).toContain('torch (Python 3.12)');
  }
);

it('keeps an environment that is not listed', () => {
  const train = made();
  train.prefill(makeJob({ request: { roles: [], environment: '/gone/old' } }));
  expect(drawn(train)).toContain('<option value="/gone/old" selected="">old');
});

it('asks what becomes of large files before it can be sent', () => {
  const train = made();
  const asking = drawn(train);
  expect(asking).toContain('Stays here: data.bin');
  expect(asking).toContain('Choose what becomes of the files');
  train.update({ leftOut: 'link' });
  const linked = drawn(train);
  expect(linked).not.toContain('Choose what becomes of the files');
  expect(linked).toContain('What it writes into them changes your own files.');
});

it('says what it chose by itself', () => {
  const train = made();
  const own =
    'It may run for 2 h and then ends, finished or not: choose another time limit if it needs longer.';
  const results = 'Results come back to project/results/, beside the file.';
  expect(drawn(train)).toContain(`${own} ${results}`);
  train.update({ maxRunS: null });
  expect(drawn(train)).not.toContain(own);
});

it('asks for GPUs by memory, and says what an option means', () => {
  const train = made();
  expect(drawn(train)).not.toContain('GPU memory of each worker, GiB');
  expect(drawn(train)).toContain(
    'title="By memory: the smallest part of a GPU that has it"'
  );
  train.resize(null);
  const html = drawn(train);
  expect(html).toMatch(/value="memory" checked=""|checked="" value="memory"/);
  expect(html).toMatch(/id="gc-gpuMemoryGib"[^>]*value="12"/);
});

it('lets the script be told of a stop, and says what that may cost', () => {
  const train = made();
  train.isExpanded = true;
  expect(drawn(train)).toContain('what the pool sets (default)');
  expect(drawn(train)).toContain('goes on later (default)');
  expect(drawn(train)).not.toContain('SIGUSR1 ends a script');
  train.update({ noticeSignal: 'SIGUSR1' });
  expect(drawn(train)).toContain(
    'SIGUSR1 ends a script that does not handle it.'
  );
});

it('warns of workers that would not find each other, and knows parameters', () => {
  const train = made();
  train.type('workers', '2');
  train.isExpanded = true;
  const html = drawn(train);
  expect(html).toContain('torchrun (proposed)');
  expect(html).toContain('torchrun, as a.py (line 3) starts torch.');
  expect(html).not.toContain('Starts torch.');
  expect(html).toContain('Parameters: alpha');
  train.update({ launcher: 'plain' });
  expect(drawn(train)).toContain('Starts torch.');
  expect(drawn(train)).not.toContain('torchrun, as');
});

it('has workers and launcher before anything is unfolded', () => {
  const train = made();
  expect(drawn(train)).toContain('>Workers<');
  expect(drawn(train)).not.toContain('>Launcher<');
  train.update({ milliGpu: 4000 });
  const one = drawn(train);
  expect(one).toContain('>Launcher<');
  expect(one).toContain('Plain: one process');
  expect(one).not.toContain('torchrun, as');
  train.update({ launcher: 'deepspeed' });
  expect(drawn(train)).toContain('<option value="deepspeed" selected="">');
});

it('shows what the scheduler warns of, each once', () => {
  const train = made();
  train.type('workers', '2');
  train.update({ launcher: 'plain' });
  train.quote = {
    hold_class: 'guaranteed',
    text: 'Guaranteed.',
    warnings: ['Starts torch.', 'Not known here.']
  };
  const html = drawn(train);
  expect(html.split('Starts torch.')).toHaveLength(2);
  expect(html).toContain('Not known here.');
});

it.each([
  ['name', 'My Job!', 'A name has small letters'],
  ['name', 'digits-7', null],
  ['module', 'train.py', 'A module is written with dots'],
  ['module', '../train', 'A module is written with dots'],
  ['module', 'a b', 'A module is written with dots'],
  ['module', 'examples.train', null],
  ['maxPrice', 'Infinity', 'A price is a number'],
  ['maxPrice', '1.50', null]
])('says at the field %s what is wrong with %s', (field, text, says) => {
  const train = made();
  train.setCandidates([
    {
      ...{ savedMs: null, isDirty: false, path: 'a.py' },
      save: () => Promise.resolve()
    }
  ]);
  train.choose('a.py');
  train.update({ [field]: text });
  train.setExpanded(true);
  const form = drawn(train);
  if (says === null) {
    expect(form).not.toContain(`gc-${field}-mistake`);
  } else {
    expect(form).toContain(`id="gc-${field}-mistake">${says}`);
  }
});
