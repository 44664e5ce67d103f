/** What runs of a notebook that defines a training. */
import { describe, expect, it } from 'vitest';

import { TrainModel } from '../submission/train';
import { choosePart, propose, proposedFunction } from './what';

function notebook(path: string, sources: string[], functions: string[]) {
  return {
    path,
    savedMs: null,
    isDirty: false,
    functions,
    sources,
    save: () => Promise.resolve()
  };
}

function train(): TrainModel {
  return new TrainModel({} as never, () => false);
}

const TRAINS = ['def train(resume_dir=None):\n    pass', 'TrainPanel(train)'];

/** It calls itself, below a head of several lines; what a class has is called something else. */
const RECURS = `
class Model:
    def train(self, mode=True):
        pass

def train(
    resume_dir=None,
):
    text = '''
train(1)
'''

    train(text)
`;

describe('the part of a notebook that runs', () => {
  it('is the function that was written to be a job, until the reader chooses', () => {
    const model = train();
    model.setCandidates([notebook('a.ipynb', TRAINS, ['train'])]);
    propose(model);
    expect(model.form.functionName).toBe('train');
    choosePart(model, '');
    propose(model);
    expect(model.form.functionName).toBe('');
    choosePart(model, 'train');
    expect(model.form.functionName).toBe('train');
  });

  it('follows the document in front', () => {
    const model = train();
    const a = notebook('b.ipynb', TRAINS, ['train']);
    const b = notebook('c.ipynb', ['1'], []);
    model.setCandidates([a, b]);
    propose(model);
    model.setCandidates([b, a]);
    propose(model);
    expect(model.form.source).toEqual({ kind: 'file', path: 'c.ipynb' });
    expect(model.form.functionName).toBe('');
  });

  it.each([
    [['train'], TRAINS, 'train'],
    [['fit'], ['def fit(resume_dir): ...', 'refit(1)'], 'fit'],
    [['a', 'train'], [], 'train'],
    [['a', 'b'], [], ''],
    [['train'], ['result = train(None)'], ''],
    [['train'], ['x = 1\ntrain()'], ''],
    [['train'], ['model.train()\n# train()\nprint("train()")'], 'train'],
    [['train'], ['for lr in (1, 2):\n    train(lr)'], ''],
    [['train'], ['if ok: pass\nelse:\n  best = [\n    train (1)]'], ''],
    [['train'], ['print(f"{train(None)}")'], ''],
    [['train'], [RECURS, '"""\nCall\ntrain(None)\n"""'], 'train'],
    [['train'], [RECURS, 'def main():\n    train()', 'main()'], ''],
    [[], ['def start(): ...'], '']
  ])('of %j in %j is %j', (functions, sources, name) => {
    expect(proposedFunction(functions, sources)).toBe(name);
  });
});
