/** A job's curve, from what the scheduler sends to where it is drawn. */
import { describe, expect, it } from 'vitest';

import { FollowedJob } from '../model/followed';
import { ICurvePoint } from '../server/types';
import { curveView } from './curve';

const parent = {
  send: () => true,
  release: () => undefined,
  attemptLine: () => ''
};
const box = {
  width: 400,
  height: 200,
  left: 40,
  right: 40,
  top: 20,
  bottom: 20
};

function point(attempt: number, step: number, loss: number): ICurvePoint {
  return { attempt, step, at_ms: 0, metrics: { loss } };
}

describe('a curve', () => {
  it('takes the whole curve each time, so that a step that was done again stands once', () => {
    const job = new FollowedJob('j', parent, null);
    job.handle({ type: 'curve', job: 'j', points: [point(1, 1, 2)] });
    job.handle({
      type: 'curve',
      job: 'j',
      points: [point(2, 1, 1)],
      source: 'log'
    });
    expect(job.points).toEqual([point(2, 1, 1)]);
    expect(job.source).toBe('log');
    job.dispose();
  });

  it('places parts of epochs by the epoch', () => {
    const part = (step: number, epoch: number): ICurvePoint => ({
      attempt: 1,
      step,
      at_ms: 0,
      metrics: { loss: 1, epoch },
      unit: 'epoch'
    });
    const view = curveView([part(500, 0.5), part(2000, 2)], box);
    expect([view.firstStep, view.lastStep]).toEqual([0.5, 2]);
  });

  it('labels an axis with the digits that tell its ticks apart', () => {
    const labels = (name: string, values: number[]) =>
      curveView(
        values.map((value, step) => ({
          ...point(1, step, 0),
          metrics: { [name]: value }
        })),
        box
      ).series[0]?.ticks.map(tick => tick.label);
    expect(labels('token_accuracy', [0.0004, 0.001])).toEqual([
      '0.00 %',
      '0.05 %',
      '0.10 %'
    ]);
    expect(labels('accuracy', [0.2, 0.9])).toEqual(['0 %', '50 %', '100 %']);
    expect(labels('loss', [-1000.5, -1000.1])).toEqual([
      '-1000.5',
      '-1000.4',
      '-1000.3',
      '-1000.2',
      '-1000.1'
    ]);
  });
});
