import { Notification } from '@jupyterlab/apputils';
import { CommandRegistry } from '@lumino/commands';
import { afterEach, expect, it, vi } from 'vitest';

import { CommandIDs } from '../lab/ids';
import { Model } from '../model/model';
import type { IJobOffer } from '../server/types';
import { TrainModel } from '../submission/train';
import { msg } from '../testing/make';
import { fakeApi } from '../testing/sockets';
import { JobOffers, offerMessages } from './joboffer';

afterEach(() => {
  Notification.manager.dismiss();
});

const OFFER: IJobOffer = {
  path: 'work/train.ipynb',
  gpus: 4,
  joins: true,
  is_new: true
};
const NOON = new Date(2026, 10, 28, 12).getTime();
const HOUR = 3600 * 1000;

function made({ tellsJobs = true, status = 204 } = {}) {
  const asked: unknown[] = [];
  const api = fakeApi((url, init) => {
    asked.push([url, init.body]);
    return status === 204
      ? new Response(null, { status })
      : new Response('{"message":"Not here."}', { status });
  });
  const model = new Model(api, String);
  const commands = new CommandRegistry();
  const opened: unknown[] = [];
  const train = new TrainModel(api, () => false);
  commands.addCommand(CommandIDs.trainFile, {
    describedBy: { args: { type: 'object', properties: {} } },
    execute: ({ path }) => {
      opened.push(path);
      train.choose(path as string);
    }
  });
  const offers = new JobOffers({ model, msg, commands, train, tellsJobs });
  const on = (kind: string, data: unknown) =>
    offers.onEvent({
      number: 0,
      at_ms: 0,
      kind,
      by: '',
      text: '',
      data: data as Record<string, never>
    });
  return { on, opened, train, asked, model };
}

const shown = () => Notification.manager.notifications.map(one => one.message);

it('says what would be won, with the condition', () => {
  const text = offerMessages(msg).offer(
    {
      ...OFFER,
      done_ms: NOON + 11 * HOUR,
      here_ms: NOON + 24 * HOUR,
      times: 4
    },
    NOON
  );

  expect(text).toBe(
    'Make train.ipynb a job? On 4 GPUs, if 4 times as fast there, done by about 23:00 instead of tomorrow 12:00.'
  );
});

it('says no time where nobody knows one', () => {
  const { offer } = offerMessages(msg);

  expect(offer({ ...OFFER, gpus: 1 }, NOON)).toBe(
    'Make train.ipynb a job? It could start on 1 GPU now, from its first cell, and goes on without your server.'
  );
});

it('fits where Lab would cut it', () => {
  const long = {
    ...OFFER,
    path: `${'long-name-'.repeat(9)}.ipynb`,
    times: 2.5
  };
  const days = { done_ms: NOON + 70 * HOUR, here_ms: NOON + 700 * HOUR };

  expect(
    offerMessages(msg).offer({ ...long, ...days }, NOON).length
  ).toBeLessThan(141);
  expect(offerMessages(msg).offer(long, NOON).length).toBeLessThan(141);
});

it('opens the form filled in, and says that the kernel goes on', async () => {
  const { on, opened, train } = made();

  expect(on('job-offer', OFFER)).toBe(true);
  const [offer] = Notification.manager.notifications;
  offer?.options.actions?.[0]?.callback(new MouseEvent('click'));

  await vi.waitFor(() => {
    expect(shown()).toContain(
      'train.ipynb goes on here, and keeps its GPU, until you stop it. The job runs a copy of the saved notebook from its first cell.'
    );
  });
  expect(opened).toEqual(['work/train.ipynb']);
  expect(train.form).toMatchObject({
    source: { kind: 'file', path: 'work/train.ipynb' },
    milliGpu: 1000,
    workers: 4,
    launcher: 'auto'
  });
});

it('gives all GPUs to one worker where nothing joins several', async () => {
  const { on, train, model } = made();

  model.timeLimits = [3600, 86_400, null];
  const done_ms = model.clock.now() + 5 * HOUR;
  on('job-offer', { ...OFFER, gpus: 2, joins: false, done_ms, times: 2 });
  const [offer] = Notification.manager.notifications;
  offer?.options.actions?.[0]?.callback(new MouseEvent('click'));

  await vi.waitFor(() => {
    // Ten hours, if it is no faster.
    const sized = { milliGpu: 2000, workers: 1, maxRunS: 86_400 };
    expect(train.form).toMatchObject(sized);
  });
});

it('tells the server that this notebook shall not be offered again', async () => {
  const { on, asked } = made();

  on('job-offer', OFFER);
  const [offer] = Notification.manager.notifications;
  offer?.options.actions?.[1]?.callback(new MouseEvent('click'));

  await vi.waitFor(() => {
    expect(asked).toHaveLength(1);
  });
  expect(JSON.stringify(asked)).toContain('no-job-offer');
  expect(JSON.stringify(asked)).toContain('work/train.ipynb');
});

it('says where that could not be kept', async () => {
  const { on, model } = made({ status: 404 });
  const failed: string[] = [];
  model.failed.connect((_, message) => failed.push(message));

  on('job-offer', OFFER);
  const [offer] = Notification.manager.notifications;
  offer?.options.actions?.[1]?.callback(new MouseEvent('click'));

  await vi.waitFor(() => {
    expect(failed).toEqual(['Not here.']);
  });
});

it('follows newer numbers, is taken back, and does not come again when closed', () => {
  const { on } = made();
  on('job-offer', OFFER);
  on('job-offer', { ...OFFER, gpus: 2, is_new: false });
  expect(shown()).toEqual([expect.stringContaining('on 2 GPUs')]);

  on('job-offer-over', { path: OFFER.path });
  expect(shown()).toEqual([]);
  on('job-offer', { ...OFFER, is_new: false });
  expect(shown()).toEqual([]);
});

it('says nothing where people want no word of jobs', () => {
  const { on } = made({ tellsJobs: false });

  expect(on('job-offer', OFFER)).toBe(true);
  expect(shown()).toEqual([]);
  expect(on('started', {})).toBe(false);
});
