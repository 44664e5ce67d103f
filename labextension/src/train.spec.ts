import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { makeJob } from './testing/make';
import { fakeApi } from './testing/sockets';
import { EMPTY_FORM } from './request';
import { ICandidate, TrainModel } from './train';

const QUOTE = { hold_class: 'guaranteed', text: 'Fits.' };

let canAsk = true;
let asked: { url: string; body: string; key: string | null }[] = [];

function train(
  status = 200,
  answer: unknown = QUOTE,
  quoteStatus = status
): TrainModel {
  asked = [];
  return new TrainModel(
    fakeApi((url, init) => {
      asked.push({
        url: url.replace(/[?&]\d+$/, ''),
        body: typeof init.body === 'string' ? init.body : '',
        key: new Headers(init.headers).get('Idempotency-Key')
      });
      return new Response(JSON.stringify(answer), {
        status: url.includes('/quote') ? quoteStatus : status
      });
    }),
    () => canAsk
  );
}

function file(path: string, changes: Partial<ICandidate> = {}): ICandidate {
  return {
    path,
    isNotebook: path.endsWith('.ipynb'),
    savedMs: null,
    isDirty: false,
    functions: [],
    save: () => Promise.resolve(),
    ...changes
  };
}

beforeEach(() => {
  canAsk = true;
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe('what to run', () => {
  it('is the document in front until the reader chooses', () => {
    const model = train();
    model.setCandidates([file('a.ipynb'), file('b.py')]);
    expect(model.form.source).toEqual({ kind: 'file', path: 'a.ipynb' });
    model.setCandidates([file('b.py'), file('a.ipynb')]);
    expect(model.form.source).toEqual({ kind: 'file', path: 'b.py' });

    model.choose('a.ipynb');
    model.setCandidates([file('b.py'), file('a.ipynb')]);
    expect(model.form.source).toEqual({ kind: 'file', path: 'a.ipynb' });
  });
});

describe('the quota line', () => {
  it('asks once for several changes, within half a second', async () => {
    const model = train();
    model.setCandidates([file('a.ipynb')]);
    model.update({ milliGpu: 2000 });
    model.update({ milliGpu: 4000 });
    await vi.advanceTimersByTimeAsync(500);

    expect(asked).toHaveLength(1);
    expect(asked[0]?.body).toContain('"milli_gpu":4000');
    expect(model.quote?.text).toBe('Fits.');
  });

  it('does not stand for a form that asks for something else', async () => {
    const model = train();
    model.setCandidates([file('a.ipynb')]);
    await vi.advanceTimersByTimeAsync(500);
    expect(model.isAsking).toBe(false);

    model.update({ milliGpu: 2000 });
    expect(model.isAsking).toBe(true);
    await vi.advanceTimersByTimeAsync(500);
    expect(model.isAsking).toBe(false);
  });

  it('is no late answer to what the form asked before', async () => {
    const answers: ((text: string) => void)[] = [];
    const api = fakeApi();
    api.quote = () =>
      new Promise(resolve => {
        answers.push(text => {
          resolve({ hold_class: 'guaranteed', text });
        });
      });
    const model = new TrainModel(api, () => true);
    model.setCandidates([file('a.ipynb')]);
    await vi.advanceTimersByTimeAsync(500);
    model.update({ milliGpu: 2000 });
    answers[0]?.('Of 1 GPU.');
    await vi.advanceTimersByTimeAsync(0);
    expect([model.isAsking, model.quote]).toEqual([true, null]);
    await vi.advanceTimersByTimeAsync(500);
    answers[1]?.('Of 2 GPUs.');
    await vi.advanceTimersByTimeAsync(0);
    expect([model.isAsking, model.quote?.text]).toEqual([false, 'Of 2 GPUs.']);
  });

  it('asks nobody where there is no scheduler', async () => {
    canAsk = false;
    const model = train();
    model.setCandidates([file('a.ipynb')]);
    await vi.advanceTimersByTimeAsync(500);

    expect(asked).toEqual([]);
  });

  it('shows a refusal as its sentence', async () => {
    const model = train(422, { message: 'Ask for 4 or less.' });
    model.setCandidates([file('a.ipynb')]);
    await vi.advanceTimersByTimeAsync(500);

    expect(model.problem).toBe('Ask for 4 or less.');
    expect(model.quote).toBeNull();
  });
});

describe('a refusal of the form', () => {
  it('stands until the form asks for something else', async () => {
    let status = 422;
    const api = fakeApi(
      () => new Response(JSON.stringify({ message: 'No.' }), { status })
    );
    const refused = new TrainModel(api, () => true);
    refused.setCandidates([file('a.ipynb')]);
    await vi.advanceTimersByTimeAsync(500);
    expect(refused.refusal).toBe('No.');

    status = 200;
    refused.update({ milliGpu: 500 });
    await vi.advanceTimersByTimeAsync(500);
    expect(refused.refusal).toBeNull();
  });

  it('is asked for again when the reader comes back to the form', async () => {
    let status = 422;
    const api = fakeApi(
      () =>
        new Response(JSON.stringify({ message: 'No secret x.' }), { status })
    );
    const refused = new TrainModel(api, () => true);
    refused.setCandidates([file('a.ipynb')]);
    await vi.advanceTimersByTimeAsync(500);
    expect(refused.refusal).toBe('No secret x.');

    status = 200;
    refused.lookAgain();
    await vi.advanceTimersByTimeAsync(500);
    expect(refused.refusal).toBeNull();
  });

  it.each([429, 503])('is not what a busy scheduler says: %i', async status => {
    const model = train(status, { message: 'Later.' });
    model.setCandidates([file('a.ipynb')]);
    await vi.advanceTimersByTimeAsync(500);

    expect(model.problem).toBe('Later.');
    expect(model.refusal).toBeNull();
  });
});

describe('workers', () => {
  it('take the lower bound along while both are one', () => {
    const model = train();
    model.update({ workers: 4 });
    expect(model.form.minWorkers).toBe(4);
    model.update({ minWorkers: 2 });
    model.update({ workers: 8 });
    expect(model.form.minWorkers).toBe(2);
    model.update({ workers: 1 });
    expect(model.form.minWorkers).toBe(1);
  });
});

it('keeps nothing of a job run again for the next file', () => {
  const model = train();
  model.prefill(makeJob({ name: 'old-7', request: { roles: [] } }));
  model.update({ name: 'old-8', team: 'nlp', priority: 'low' });
  model.choose('fail.ipynb');

  expect(model.form).toEqual({
    ...EMPTY_FORM,
    team: 'nlp',
    source: { kind: 'file', path: 'fail.ipynb' }
  });
});

describe('submit', () => {
  it('saves what is unsaved first', async () => {
    const save = vi.fn(() => Promise.resolve());
    const model = train(200, makeJob());
    model.setCandidates([file('a.ipynb', { isDirty: true, save })]);
    const job = await model.submit();

    expect(save).toHaveBeenCalledOnce();
    expect(job?.id).toBe('j-1');
    expect(asked[0]?.url).toBe('http://lab/base/gpucommons/submit-file');
  });

  it('keeps the form and says why when it is refused', async () => {
    const model = train(409, { message: 'vision has 100 pending jobs.' }, 200);
    model.setCandidates([file('a.ipynb')]);
    model.update({ name: 'mine' });

    expect(await model.submit()).toBeNull();
    expect(model.problem).toBe('vision has 100 pending jobs.');
    expect(model.form.name).toBe('mine');
    expect(model.isBusy).toBe(false);
    await vi.runAllTimersAsync();
    expect(model.quote).not.toBeNull();
    expect(model.problem).toBe('vision has 100 pending jobs.');

    model.update({ name: 'other' });
    expect(model.problem).toBeNull();
  });

  it('makes no second job when the answer was lost', async () => {
    const model = train(503, { message: 'The scheduler starts.' });
    model.setCandidates([file('a.ipynb')]);
    await model.submit();
    await model.submit();
    model.update({ name: 'other' });
    await model.submit();

    const [first, second, third] = asked
      .filter(each => each.url.endsWith('submit-file'))
      .map(each => each.key);
    expect(first).toMatch(/^[0-9a-f-]{36}$/);
    expect(second).toBe(first);
    expect(third).not.toBe(first);
  });

  it('sends nothing while a secret is no name', async () => {
    const model = train();
    model.setCandidates([file('a.ipynb')]);
    model.update({ secrets: 'TOKEN=Abc+' });

    expect(await model.submit()).toBeNull();
    expect(asked.filter(each => each.url.endsWith('submit-file'))).toEqual([]);
  });
});

describe('a smaller copy that starts now', () => {
  const waiting = makeJob({
    id: 'w',
    state: 'queued',
    request: { roles: [] }
  });
  const paths = () => asked.map(each => each.url.replace(/^.*gpucommons/, ''));

  it('is submitted at once, names the old job, and takes its place', async () => {
    const model = train(200, makeJob());
    await model.startSmaller(waiting, 1000);

    expect(paths()).toEqual(['/api/jobs', '/api/jobs/w/cancel']);
    expect(JSON.parse(asked[0]?.body ?? '')).toMatchObject({
      parent: 'w',
      roles: [{ milli_gpu: 1000 }]
    });
    expect(model.form).toBe(EMPTY_FORM);
  });

  it('leaves the cancelling to the scheduler where it goes on', async () => {
    const checkpoint = { step: 17, size_bytes: 1, at_ms: 0 };
    await train(200, makeJob()).startSmaller({ ...waiting, checkpoint }, 1000);

    expect(paths()).toEqual(['/api/jobs']);
    expect(asked[0]?.body).toContain('"resume_from":"w"');
  });

  it('is one however often it is asked for', async () => {
    const model = train(200, makeJob());
    await model.startSmaller(waiting, 1000);
    await model.startSmaller(waiting, 1000);

    expect(asked[2]?.key).toBe(asked[0]?.key);
    expect(asked[0]?.key).not.toBe('');
  });

  it('leaves the old job in line where it is refused', async () => {
    const model = train(409, { message: 'No.' });

    await expect(model.startSmaller(waiting, 1000)).rejects.toThrow('No.');
    expect(paths()).toEqual(['/api/jobs']);
  });
});
