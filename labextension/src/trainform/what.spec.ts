/** What runs of a notebook that defines a training. */
import { Signal } from '@lumino/signaling';
import * as React from 'react';
import { act } from 'react';
import { createRoot } from 'react-dom/client';
import { describe, expect, it, vi } from 'vitest';

import { PanelContext } from '../components/context';
import { TrainModel } from '../submission/train';
import { msg } from '../testing/make';
import { choosePart, propose, proposedFunction, WhatToRun } from './what';

function notebook(path: string, sources: () => string[]) {
  return {
    path,
    savedMs: null,
    isDirty: false,
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
    model.setCandidates([notebook('a.ipynb', () => TRAINS)]);
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
    const a = notebook('b.ipynb', () => TRAINS);
    const b = notebook('c.ipynb', () => ['1']);
    model.setCandidates([a, b]);
    propose(model);
    model.setCandidates([b, a]);
    propose(model);
    expect(model.form.source).toEqual({ kind: 'file', path: 'c.ipynb' });
    expect(model.form.functionName).toBe('');
  });

  it('is proposed anew, and taken back, as the notebook is edited', () => {
    const model = train();
    let sources = TRAINS;
    model.setCandidates([notebook('d.ipynb', () => sources)]);
    const proposed = (...edited: string[]) => {
      sources = edited;
      propose(model);
      return model.form.functionName;
    };
    expect(proposed(...TRAINS)).toBe('train');
    expect(proposed('def fit(resume_dir): ...')).toBe('fit');
    expect(proposed('def fit(resume_dir): ...', 'fit(None)')).toBe('');
    expect(proposed(...TRAINS)).toBe('train');
    choosePart(model, 'train');
    expect(proposed(...TRAINS, 'train(None)')).toBe('train');
    // What is no longer there cannot be called, whoever chose it.
    expect(proposed('def fit(resume_dir): ...')).toBe('fit');
    expect(proposed('1')).toBe('');
  });

  it('is looked for again by whoever shows it, some time after an edit', () => {
    vi.useFakeTimers();
    vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true);
    const model = train();
    const edited = new Signal<object, void>({});
    let sources = TRAINS;
    const candidate = { ...notebook('e.ipynb', () => sources), edited };
    model.setCandidates([candidate]);
    const root = createRoot(document.createElement('div'));
    const value = { train: model, msg } as never;
    act(() => {
      root.render(
        React.createElement(
          PanelContext.Provider,
          { value },
          React.createElement(WhatToRun)
        )
      );
    });
    expect(model.form.functionName).toBe('train');
    sources = [...TRAINS, 'train(None)'];
    act(() => {
      edited.emit();
      vi.advanceTimersByTime(1000);
    });
    expect(model.form.functionName).toBe('');
    act(() => {
      root.unmount();
    });
    vi.useRealTimers();
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
