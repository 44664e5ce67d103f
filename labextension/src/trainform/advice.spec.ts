/** *Advise* in the form: what a plan says, and what *Use this plan* fills in. */
import * as React from 'react';
import { act } from 'react';
import { createRoot } from 'react-dom/client';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, it, vi } from 'vitest';

import { PanelContext } from '../components/context';
import type { IAdvice, IPlan, IPlanQuestion } from '../server/plans';
import { takePlan, tryPlan } from '../submission/plan';
import { jobRequest } from '../submission/request';
import { TrainModel } from '../submission/train';
import { makeJob, msg } from '../testing/make';
import { fakeApi } from '../testing/sockets';
import { Plans, TrainAdvice } from './advice';
import { trainMessages } from './messages';

const PLAN: IPlan = {
  pool: 'train',
  gpus: 4,
  workers: 1,
  milli_gpu: 4000,
  launcher: 'torchrun',
  layout: 'FSDP × 4',
  script: ['FSDP with FULL_SHARD', '2 samples at once on each GPU'],
  verdict: 'fits',
  memory_text: 'fits: 31.0 of 38.8 GiB (optimizer 12.1)',
  speed_text: '9.1–10.4 k tokens/s',
  wait_text: '3–8 min',
  wait_note: 'few jobs to judge by',
  run_s: { low: 3600, high: 5400 },
  finish_s: { low: 3700, high: 5900 },
  id: '0190aaaa-0000-7000-8000-000000000009',
  gpu_hours: 11.23,
  cost: 7.84,
  why: 'Likely done soonest of all layouts that fit; limited by computation.',
  grade: 'C',
  hold_class: 'over-quota'
};

const ADVICE: IAdvice = {
  plans: [PLAN],
  plain_text: 'Plain, 4 GPUs of train (DDP × 4): does not fit.',
  declined: '',
  why_not: [{ gpus: 8, text: 'The largest node of train has 4 GPUs.' }],
  considered: 1230,
  notes: ['The GPUs of pool train are simulated.'],
  currency: 'EUR',
  now_ms: new Date(2026, 10, 24, 12, 0).getTime()
};

const NO_JOBS = { timeLimits: [], jobs: [], whoami: null };

/** The form of a script; `besides` are the files in its folder. */
function made(besides = ['config.json']): TrainModel {
  const train = new TrainModel(fakeApi(), () => false);
  train.setCandidates([
    {
      path: 'llama/train.py',
      savedMs: null,
      isDirty: false,
      save: () => Promise.resolve()
    }
  ]);
  const files = besides.map(path => ({ path, size_bytes: 1 }));
  train.files = { files } as never;
  return train;
}

function drawn(element: React.ReactElement, train = made()): string {
  const context = { train, msg, model: NO_JOBS, commands: {} };
  return renderToStaticMarkup(
    React.createElement(
      PanelContext.Provider,
      { value: context as never },
      element
    )
  );
}

it('asks for the configuration beside the script, where there is one', () => {
  const html = drawn(React.createElement(TrainAdvice));
  expect(html).toContain('value="llama/config.json"');
  expect(html).toContain('For any other model: advise(model, loader)');

  const alone = drawn(React.createElement(TrainAdvice), made(['train.py']));
  expect(alone).toContain(
    'placeholder="llama/config.json" spellcheck="false" value=""'
  );
});

it('sends nobody after a configuration that is not there', () => {
  const html = drawn(React.createElement(TrainAdvice), made(['train.py']));
  expect(html).toContain('Name the model’s config.json.');
});

it('asks for a deadline where that counts, and for nothing before it is said', async () => {
  vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true);
  const advise = vi.fn<(question: IPlanQuestion) => Promise<IAdvice>>(() =>
    Promise.resolve(ADVICE)
  );
  const train = made();
  train.advise = advise;
  const host = document.createElement('div');
  const root = createRoot(host);
  const context = { train, msg, model: NO_JOBS, commands: {} };
  const button = () => host.querySelector('button') as HTMLButtonElement;
  const fill = (selector: string, value: string) => {
    const field = host.querySelector(selector) as HTMLInputElement;
    const proto = Object.getPrototypeOf(field) as object;
    Object.getOwnPropertyDescriptor(proto, 'value')?.set?.call(field, value);
    field.dispatchEvent(new Event('input', { bubbles: true }));
    field.dispatchEvent(new Event('change', { bubbles: true }));
  };
  act(() => {
    root.render(
      React.createElement(
        PanelContext.Provider,
        { value: context as never },
        React.createElement(TrainAdvice)
      )
    );
  });
  expect(host.querySelector('#gc-deadline')).toBeNull();
  act(() => {
    fill('#gc-objective', 'cheapest_by_deadline');
  });
  expect(host.textContent).toContain('Done by, your time');
  act(() => {
    button().click();
  });
  expect(advise).not.toHaveBeenCalled();
  act(() => {
    fill('#gc-deadline', '2026-12-04T09:00');
  });
  await act(() => {
    button().click();
    return Promise.resolve();
  });
  expect(advise.mock.calls[0]?.[0].asked).toMatchObject({
    objective: 'cheapest_by_deadline',
    deadline_ms: new Date(2026, 11, 4, 9, 0).getTime()
  });
  act(() => {
    root.unmount();
  });
});

it('names one of the reader’s last jobs in place of a file', async () => {
  vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true);
  const advise = vi.fn<(question: IPlanQuestion) => Promise<IAdvice>>(() =>
    Promise.resolve(ADVICE)
  );
  const train = made();
  train.advise = advise;
  const mine = makeJob({ id: 'j1', name: 'try-it', owner: 'ada' });
  const other = makeJob({ id: 'j2', name: 'of-bob', owner: 'bob' });
  const trial = makeJob({ id: 'j3', name: 'trial-3', owner: 'ada' });
  trial.part_of = { kind: 'sweep' } as never;
  const model = {
    timeLimits: [],
    whoami: { name: 'ada' },
    jobs: [mine, other, trial]
  };
  const host = document.createElement('div');
  const root = createRoot(host);
  const context = { train, msg, model, commands: {} };
  act(() => {
    root.render(
      React.createElement(
        PanelContext.Provider,
        { value: context as never },
        React.createElement(TrainAdvice)
      )
    );
  });
  const choice = host.querySelector('#gc-like') as HTMLSelectElement;
  expect(
    Array.from(choice.options, (one: HTMLOptionElement) => one.text)
  ).toEqual(['a model with a config.json', 'the same as try-it']);
  act(() => {
    choice.value = 'j1';
    choice.dispatchEvent(new Event('change', { bubbles: true }));
  });
  expect(host.querySelector('#gc-config')).toBeNull();
  expect(host.querySelector('#gc-sequence')).toBeNull();
  await act(() => {
    (host.querySelector('button') as HTMLButtonElement).click();
    return Promise.resolve();
  });
  expect(advise.mock.calls[0]?.[0]).toMatchObject({
    config: '',
    like: ['j1'],
    asked: { sequence: 1 }
  });
  act(() => {
    root.unmount();
  });
});

it('leads from where nothing can be said to the choice of one of the last jobs', async () => {
  vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true);
  const train = made();
  train.advise = () =>
    Promise.resolve({
      ...ADVICE,
      plans: [],
      declined: "Can't say yet. Try 2 minutes on one GPU?",
      try_like: true
    });
  const model = {
    timeLimits: [],
    whoami: { name: 'ada' },
    jobs: [makeJob({ id: 'j1', name: 'try-it', owner: 'ada' })]
  };
  const host = document.createElement('div');
  document.body.append(host);
  const root = createRoot(host);
  const draw = () => {
    root.render(
      React.createElement(
        PanelContext.Provider,
        { value: { train, msg, model, commands: {} } as never },
        React.createElement(TrainAdvice)
      )
    );
  };
  const button = (text: string) =>
    Array.from(host.querySelectorAll('button')).find(
      each => each.textContent === text
    );
  act(draw);
  await act(() => {
    button('Show plans')?.click();
    return Promise.resolve();
  });
  button('Plan it like one of my last jobs')?.click();
  expect(document.activeElement?.id).toBe('gc-like');

  model.jobs = [];
  act(draw);
  expect(button('Plan it like one of my last jobs')).toBeUndefined();
  expect(host.textContent).toContain('then choose that job here');
  act(() => {
    root.unmount();
  });
  host.remove();
});

it('says of a plan what it is, what it rests on, and what the script must do', () => {
  const html = drawn(React.createElement(Plans, { advice: ADVICE }));
  for (const words of [
    '4 GPUs of train, borrowed',
    'Grade C: rests on formulas alone',
    'wait 3–8 min (few jobs to judge by)',
    'done 13:01 to 13:38',
    '11.2 GPU-h',
    '7.84 EUR',
    'fits: 31.0 of 38.8 GiB (optimizer 12.1)',
    'In the script: FSDP with FULL_SHARD; 2 samples at once on each GPU.',
    'Plain, 4 GPUs of train (DDP × 4): does not fit.',
    'Why not 8: The largest node of train has 4 GPUs.',
    '1,230 layouts were looked at.',
    'are simulated.'
  ]) {
    expect(html).toContain(words);
  }
});

it('says no end where the wait is not known, and no number where it declines', () => {
  const vague = { ...PLAN, wait_text: 'not known', wait_note: '' };
  const plans = [{ ...vague, finish_s: null, cost: null }];
  const html = drawn(
    React.createElement(Plans, { advice: { ...ADVICE, plans } })
  );
  expect(html).toContain('wait not known');
  expect(html).toContain('1 h to 1 h 30 min after its start');
  expect(html).not.toContain('EUR');

  const none = { ...ADVICE, plans: [], declined: "Can't say yet." };
  const declined = drawn(React.createElement(Plans, { advice: none }));
  expect(declined).toContain('Can&#x27;t say yet.');
  expect(declined).not.toContain('Use this plan');
});

it('says the arguments that a script is started with, and the number of the plan', () => {
  const said = ['--tensor-model-parallel-size', '2'];
  const plans = [{ ...PLAN, arguments: said }];
  const html = drawn(
    React.createElement(Plans, { advice: { ...ADVICE, plans } })
  );
  expect(html).toContain(`Its script is started with: ${said.join(' ')}`);
  expect(html).not.toContain('In the script');
  expect(html).toContain(`Plan number: ${PLAN.id}`);
});

it('forgets the plan and its pool with the job that took it', async () => {
  const train = made();
  vi.spyOn(train, 'mistakes', 'get').mockReturnValue([]);
  takePlan(train, PLAN, []);
  await train.send(() => Promise.resolve(makeJob()));
  expect(train.form).toMatchObject({ plan: '', pool: '', milliGpu: 4000 });
});

it('leads to what a plan has filled in', () => {
  const train = made();
  const host = document.createElement('div');
  const root = createRoot(host);
  vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true);
  act(() => {
    root.render(
      React.createElement(
        PanelContext.Provider,
        { value: { train, msg, model: NO_JOBS, commands: {} } as never },
        React.createElement(Plans, { advice: ADVICE })
      )
    );
  });
  act(() => {
    host.querySelector('button')?.click();
  });
  expect(train.form.pool).toBe('train');
  expect(train.wanted).toBe('workers');
  act(() => {
    root.unmount();
  });
});

it('fills the form with a plan, as an existing launcher runs it', () => {
  const train = made();
  takePlan(train, PLAN, [3600, 21_600, null]);
  const request = jobRequest(train.form);
  expect(request.roles[0]).toMatchObject({ count: 1, milli_gpu: 4000 });
  expect(request).toMatchObject({ launcher: 'torchrun', pools: ['train'] });

  const other = { ...PLAN, pool: 'other', milli_gpu: 1000, launcher: 'plain' };
  takePlan(train, other, []);
  expect(jobRequest(train.form)).toMatchObject({
    launcher: 'plain',
    pools: ['other']
  });

  train.prefill(makeJob());
  expect(jobRequest(train.form)).not.toHaveProperty('pools', ['train']);
});

it('tries a plan for five minutes at low priority, and has the form as it was again', () => {
  const train = made();
  train.update({ maxRunS: 7200, priority: 'high' });
  tryPlan(train, PLAN);
  expect(train.form).toMatchObject({
    plan: PLAN.id,
    milliGpu: 4000,
    maxRunS: 300,
    priority: 'low'
  });
  tryPlan(train, PLAN);
  takePlan(train, PLAN, [7200]);
  expect(train.form).toMatchObject({ maxRunS: 7200, priority: 'high' });
});

it('borrows for a trial alone, whichever way the form goes on', async () => {
  const train = made();
  train.update({ overQuota: false });
  tryPlan(train, PLAN);
  takePlan(train, PLAN, []);
  expect(jobRequest(train.form)).toMatchObject({ over_quota: false });
  tryPlan(train, PLAN);
  expect(train.form.overQuota).toBe(true);
  vi.spyOn(train, 'mistakes', 'get').mockReturnValue([]);
  await train.send(() => Promise.resolve(makeJob()));
  expect(jobRequest(train.form)).toMatchObject({ over_quota: false });
});

it('keeps a time limit and a priority that were chosen after a trial', () => {
  const train = made();
  train.update({ maxRunS: 7200, priority: 'low' });
  tryPlan(train, PLAN);
  train.update({ maxRunS: 21_600, priority: 'high' });
  takePlan(train, PLAN, []);
  expect(train.form).toMatchObject({ maxRunS: 21_600, priority: 'high' });
});

it('never leaves the plan less time than it may need', () => {
  const train = made();
  const limits = [3600, 86_400, 21_600, null];
  takePlan(train, PLAN, limits);
  expect(train.form.maxRunS).toBe(7200);
  expect(trainMessages(msg).taken(train.form)).toBe(
    'In the form now: launcher torchrun, time limit 2 h.'
  );
  takePlan(train, { ...PLAN, run_s: { low: 1, high: 7201 } }, limits);
  expect(train.form.maxRunS).toBe(21_600);
  takePlan(train, { ...PLAN, run_s: { low: 1, high: 90_000 } }, limits);
  expect(train.form.maxRunS).toBe(null);
  expect(trainMessages(msg).taken(train.form)).toContain(
    'the team’s time limit'
  );
});
