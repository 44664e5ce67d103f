/** Team bars, curve, log, announcements: what screens show, made from views. */
import { describe, expect, it } from 'vitest';

import { announcement } from './announce';
import { FollowedJob } from './followed';
import { chosenMetrics, curveView, ticks } from '../jobpage/curve';
import { jobMessages } from '../jobpage/messages';
import { LogBuffer, plain } from './log';
import { teamBars } from './team';
import { makeForecast, makeJob, msg } from '../testing/make';
import { ICurvePoint, ITeamUse } from '../server/types';

const jobMsg = jobMessages(msg);

function use(changes: Partial<ITeamUse>): ITeamUse {
  return {
    pool: 'train',
    quota: { fixed_milli_gpu: 0, guaranteed_milli_gpu: 0 },
    fixed_used_milli_gpu: 0,
    guaranteed_used_milli_gpu: 0,
    borrowed_milli_gpu: 0,
    waiting: 0,
    ...changes
  };
}

function point(attempt: number, step: number, loss: number): ICurvePoint {
  return { attempt, step, at_ms: step, metrics: { loss, accuracy: 0.5 } };
}

describe('the likely start', () => {
  it.each([
    [0, 60_000, 'under 1 min'],
    [600_000, 1_500_000, '10–25 min'],
    [3_600_000, 3_600_000, 'about 60 min'],
    [0, 7_200_000, 'under 2 h'],
    [3_600_000, 7_200_000, '1–2 h'],
    [86_400_000, 259_200_000, '1–3 d']
  ])('from %i to %i is %s', (from_ms, to_ms, text) => {
    expect(msg.window(makeForecast({ from_ms, to_ms }))).toBe(text);
  });

  it('says how right past windows were once that is known', () => {
    expect(jobMsg.likelyInFull(makeForecast())).toBe(
      'Likely 10–25 min (past estimates right 8 of 10).'
    );
    expect(jobMsg.likelyInFull(makeForecast({ right_of_ten: null }))).toBe(
      'Likely 10–25 min.'
    );
  });

  it('says in the words of the scheduler why it is unknown', () => {
    const text = 'Likely not within two weeks.';

    expect(jobMsg.likelyInFull(makeForecast({ to_ms: null, text }))).toBe(text);
  });

  it('says a wide range in the words of the scheduler, and how little it rests on', () => {
    const span = 'between 5 min and 3 h';
    const text = `Likely ${span}, few jobs to judge by.`;
    const thin = makeForecast({ basis: 'thin', span, text });
    expect(msg.likely(thin)).toBe(`likely ${span}`);
    expect(jobMsg.likelyInFull(thin)).toBe(text);
  });

  it('says what a time limit promises where no window is known', () => {
    const unknown = { to_ms: null, at_latest_ms: 7_200_000 };

    expect(msg.likely(makeForecast(unknown))).toBe('starts within 2 h');
    expect(msg.likely(makeForecast({ to_ms: null }))).toBe('start unknown');
  });
});

describe('team bars', () => {
  it('sums pools and draws to the limit', () => {
    const bars = teamBars({
      name: 'vision',
      mine: true,
      use: [
        use({
          quota: { fixed_milli_gpu: 2000, guaranteed_milli_gpu: 0 },
          fixed_used_milli_gpu: 1500
        }),
        use({
          quota: {
            fixed_milli_gpu: 0,
            guaranteed_milli_gpu: 4000,
            limit_milli_gpu: 8000
          },
          guaranteed_used_milli_gpu: 4000,
          borrowed_milli_gpu: 2000
        })
      ]
    });

    expect(bars.notebooks?.usedPercent).toBe(75);
    expect(bars.training).toMatchObject({
      usedPercent: 50,
      borrowedPercent: 25,
      quotaPercent: 50
    });
  });

  it('shows no bar where there is no quota', () => {
    const bars = teamBars({ name: 'new', mine: true, use: [] });

    expect([bars.notebooks, bars.training]).toEqual([null, null]);
  });
});

describe('curve', () => {
  const box = {
    width: 400,
    height: 200,
    left: 40,
    right: 40,
    top: 10,
    bottom: 30
  };
  const points = [
    point(1, 1, 2),
    point(1, 2, 1.5),
    point(1, 3, 1.2),
    point(2, 3, 1.2),
    point(2, 4, 1)
  ];

  it('draws a loss and an accuracy, never the epoch', () => {
    const odd = [
      { ...point(1, 1, 1), metrics: { epoch: 1, lr: 1, val_loss: 2 } }
    ];

    expect(chosenMetrics(points)).toEqual(['loss', 'accuracy']);
    expect(chosenMetrics(odd)).toEqual(['val_loss', 'lr']);
  });

  it('is one line over the attempts; repeated steps are set apart', () => {
    const [loss] = curveView(points, box).series;

    expect(loss?.paths.map(path => path.lost)).toEqual([false, true, false]);
    expect(loss?.paths[2]?.d.split('L')).toHaveLength(3);
    expect(curveView(points, box).attempts).toEqual([
      { x: expect.closeTo(253.3, 1) as number, number: 2 }
    ]);
  });

  it('stays inside its box and survives a flat line', () => {
    const flat = [point(1, 1, 0), point(1, 2, 0)];
    for (const series of curveView(flat, box).series) {
      expect(series.paths[0]?.d).not.toContain('NaN');
      expect(series.end.y).toBeLessThanOrEqual(box.height - box.bottom);
    }
  });

  it.each([
    ['apart', [2, 0.1], [0.1, 0.9]],
    ['at one height', [2, 1.1], [0.1, 0.5]],
    ['at the floor', [2, 0], [0.9, 0]],
    ['at the top', [0.1, 2], [0.1, 1]]
  ])('keeps the words of two lines apart that end %s', (_, loss, accuracy) => {
    const both = [0, 1].map(step => ({
      ...point(1, step, loss[step] ?? 0),
      metrics: { loss: loss[step] ?? 0, accuracy: accuracy[step] ?? 0 }
    }));
    const [one, two] = curveView(both, box).series.map(each => each.end.labelY);

    expect(Math.abs((one ?? 0) - (two ?? 0))).toBeGreaterThanOrEqual(14);
    expect(Math.max(one ?? 999, two ?? 999)).toBeLessThan(
      box.height - box.bottom
    );
    expect(Math.min(one ?? -1, two ?? -1)).toBeGreaterThan(0);
  });

  it('leaves out what is no number', () => {
    const broken = [point(1, 1, 2), point(1, 2, Number.NaN), point(1, 3, 1)];

    expect(curveView(broken, box).series[0]?.paths[0]?.d).not.toContain('NaN');
  });

  it('has round ticks', () => {
    expect(ticks(0, 2.2, 4)).toEqual([0, 1, 2, 3]);
    expect(ticks(1, 21, 5, true)).toEqual([5, 10, 15, 20]);
    expect(ticks(1, 3, 5, true)).toEqual([1, 2, 3]);
  });
});

describe('a followed job', () => {
  const whole = { roles: [], snapshot: 'abc' };
  const parent = {
    send: () => true,
    release: () => undefined,
    attemptLine: () => ''
  };
  const listed = makeJob({ request: { roles: [] }, request_lacks: ['env'] });

  it('keeps its whole request when a list shows it in part', () => {
    const followed = new FollowedJob('j-1', parent, listed);
    followed.update(makeJob({ request: whole }));
    followed.handle({ type: 'jobs', jobs: [listed] });

    expect(followed.job?.request).toEqual(whole);
    expect(followed.job?.request_lacks).toEqual([]);
    followed.dispose();
  });

  it('shows what there is of it until it is whole', () => {
    const followed = new FollowedJob('j-1', parent, listed);
    followed.handle({ type: 'jobs', jobs: [listed] });

    expect(followed.job).toEqual(listed);
    followed.dispose();
  });
});

describe('log', () => {
  const label = (attempt: number) => `attempt ${attempt}`;

  it('marks where an attempt begins and keeps a bound', () => {
    const log = new LogBuffer(3);
    log.append(1, ['a', 'b'], false, label);
    log.append(2, ['c'], true, label);

    expect(log.lines.map(line => line.text)).toEqual(['b', 'attempt 2', 'c']);
    expect([log.dropped, log.ended]).toEqual([2, true]);
  });
});

describe('what is spoken', () => {
  it('tells changes of state and place, and nothing that ticks', () => {
    const before = [
      makeJob(),
      makeJob({ id: 'w', state: 'queued', position: 2 })
    ];
    const ticked = [
      makeJob({ held_milli_gpu_s: 9 }),
      makeJob({ id: 'w', state: 'queued', position: 1, name: 'resnet-2' })
    ];

    expect(announcement(before, ticked, msg)).toBe('resnet-2: 1st in line');
    expect(announcement(null, ticked, msg)).toBe('');
  });
});

describe('a printed line', () => {
  it.each([
    [
      '\u001b[0;31mZeroDivisionError\u001b[0m: by zero',
      'ZeroDivisionError: by zero'
    ],
    ['\r 10%|#  |\r 90%|## |\r100%|###|', '100%|###|'],
    ['from Windows\r', 'from Windows'],
    ['\u001b]0;a title\u0007loss 0.1', 'loss 0.1'],
    ['[31m is no colour', '[31m is no colour']
  ])('%j', (printed, shown) => {
    expect(plain(printed)).toBe(shown);
  });
});
