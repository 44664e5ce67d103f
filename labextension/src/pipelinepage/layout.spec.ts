import { expect, it } from 'vitest';

import type { IStep } from '../server/pipelines';
import { layout, STEP_HEIGHT, STEP_WIDTH } from './layout';

function step(name: string, ...after: string[]): IStep {
  return {
    name,
    state: name === 'vit' ? 'failed' : 'succeeded',
    text: '',
    what: '',
    after: Object.fromEntries(after.map(each => [each, 'ok'])),
    inputs: after.map(each => ({ step: each, path: 'model.pt', to: '' })),
    retries: 0,
    job_name: '',
    ended_text: ''
  };
}

it('puts each step right of all that it needs, and no two in one place', () => {
  const steps = [
    step('clean'),
    step('cnn', 'clean'),
    step('vit', 'clean'),
    step('assembly', 'cnn', 'vit', 'clean')
  ];
  const found = layout(steps);
  const at = new Map(found.steps.map(each => [each.step.name, each]));
  const x = (name: string) => at.get(name)?.x ?? NaN;
  expect(x('cnn')).toBe(x('vit'));
  expect(x('clean') + STEP_WIDTH).toBeLessThan(x('cnn'));
  expect(x('cnn') + STEP_WIDTH).toBeLessThan(x('assembly'));
  const [cnn, vit] = [at.get('cnn')?.y ?? NaN, at.get('vit')?.y ?? NaN];
  expect(Math.abs(cnn - vit)).toBeGreaterThan(STEP_HEIGHT);
  expect(found.edges).toHaveLength(5);
  const [last] = found.edges.filter(each => each.from === 'vit');
  expect([last?.labels, last?.isThere]).toEqual([['model.pt'], false]);
});

it('writes no words of one line over those of another', () => {
  const last = ['eval', 'alarm', 'tidy'].map(name => step(name, 'cnn', 'vit'));
  const steps = [step('clean'), step('cnn', 'clean'), step('vit', 'clean')];
  const { edges } = layout([...steps, ...last]);
  edges.forEach((one, number) => {
    for (const other of edges.slice(number + 1)) {
      const isApart =
        Math.abs(one.x - other.x) >= 118 || Math.abs(one.y - other.y) >= 18;
      expect(isApart, `${one.from}-${one.to} ${other.from}-${other.to}`).toBe(
        true
      );
    }
  });
});

it('draws nothing where there is nothing', () => {
  expect(layout([])).toEqual({ steps: [], edges: [], width: 0, height: 0 });
});
