import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { makeJob, msg } from '../testing/make';
import { fakeApi } from '../testing/sockets';
import { EMPTY_FORM } from './request';
import type { ICandidate } from './candidate';
import { TrainModel } from './train';
import { trainMessages } from '../trainform/messages';

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
    savedMs: null,
    isDirty: false,
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
    model.type('workers', '4');
    expect(model.form.minWorkers).toBe(4);
    model.type('minWorkers', '2');
    model.type('workers', '8');
    expect(model.form.minWorkers).toBe(2);
    model.type('workers', '1');
    expect(model.form.minWorkers).toBe(1);
  });
});

describe('a number', () => {
  it('stays as it is typed, and is taken once it may stand there', () => {
    const model = train();
    for (const text of ['', '-', '-3', '1.5', '2000']) {
      model.type('workers', text);
      expect([model.typed, model.form.workers]).toEqual([{ workers: text }, 1]);
      expect(model.mistakes).toEqual([{ field: 'workers' }]);
    }
    model.type('workers', '4');
    expect([model.typed, model.form.workers]).toEqual([{}, 4]);
    expect(model.mistakes).toEqual([]);
  });

  it('of the fewest workers goes by how many there are', () => {
    const model = train();
    model.type('workers', '4');
    model.type('minWorkers', '6');
    expect(model.form.minWorkers).toBe(4);
    expect(model.mistakes).toEqual([{ field: 'minWorkers' }]);
    model.type('workers', '8');
    expect([model.typed, model.form.minWorkers]).toEqual([{}, 6]);
    model.type('minWorkers', '9');
    model.type('workers', '1');
    expect([model.mistakes, model.form.minWorkers]).toEqual([[], 1]);
  });

  it('that is wrong says what may stand there', () => {
    const { form } = train();
    expect(trainMessages(msg).mistake({ field: 'workers' }, form)).toBe(
      'Workers: a whole number from 1 to 1024.'
    );
    expect(trainMessages(msg).mistake({ field: 'memoryGib' }, form)).toBe(
      'Memory, GiB: a number from 0.25 to 16384.'
    );
  });
});

it.each([
  ['', true],
  ['--name "a b" \'c\' d\\"', true],
  ['--name "a', false],
  ["it's", false],
  ['end\\', false]
])('knows whether quotation marks are closed: %s', (text, closed) => {
  const model = train();
  model.setCandidates([file('a.py')]);
  model.update({ arguments: text });
  expect(model.mistakes).toEqual(closed ? [] : [{ field: 'arguments' }]);
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

  it('says nothing of its own of a scheduler that is known to be away', async () => {
    const model = train(503, { message: 'The scheduler does not answer.' });
    model.setCandidates([file('a.ipynb')]);
    await model.submit();
    expect(model.problem).toBe('The scheduler does not answer.');
    const { key } = asked.at(-1) ?? {};

    canAsk = false;
    model.refreshQuote();
    canAsk = true;
    expect(model.problem).toBeNull();
    await model.submit();
    const again = asked.filter(each => each.url.endsWith('submit-file'));
    expect(again.map(each => each.key)).toEqual([key, key]);
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

  it.each([
    { secrets: 'TOKEN=Abc+' },
    { arguments: '--name "a' },
    { workers: '' }
  ])('sends and asks nothing while something is wrong: %j', async wrong => {
    const model = train();
    model.setCandidates([file('a.py')]);
    if (wrong.workers === undefined) {
      model.update(wrong);
    } else {
      model.type('workers', wrong.workers);
    }

    expect(await model.submit()).toBeNull();
    await vi.advanceTimersByTimeAsync(500);
    expect([asked, model.isAsking]).toEqual([[], false]);
  });
});
