/** What the form shows of profiles, and to whom it offers to publish one. */
import * as React from 'react';
import { act } from 'react';
import { createRoot } from 'react-dom/client';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, it, vi } from 'vitest';

import { PanelContext } from '../components/context';
import type { IProfile } from '../server/profiles';
import { taking } from '../submission/profile';
import { TrainModel } from '../submission/train';
import { msg } from '../testing/make';
import { fakeApi } from '../testing/sockets';
import { ProfileField, PublishProfile, useProfiles } from './profiles';

const PROFILE: IProfile = {
  team: 'vision',
  name: 'ddp',
  description: 'Two GPUs.',
  callback: 'keras',
  callback_line: 'callbacks=[Follow()]',
  job: { workers: 2 },
  published_by: 'ada',
  steerable: true
};

function drawn(
  profiles: IProfile[] | null,
  { isChosen = false, whoami = {} } = {}
): string {
  const train = new TrainModel(fakeApi(), () => false);
  if (isChosen) {
    train.start(taking(PROFILE, train.form));
  }
  const context = { train, msg, model: { whoami } };
  return renderToStaticMarkup(
    React.createElement(
      PanelContext.Provider,
      { value: context as never },
      React.createElement(ProfileField, { profiles }),
      React.createElement(PublishProfile, { profiles, onChange: () => {} })
    )
  );
}

it('shows nothing where a team has none, and nothing to publish to who leads none', () => {
  expect(drawn(null)).toBe('');
  expect(drawn([])).toBe('');
});

it('says what the chosen one is good for, whose it is, and the line that it counts on', () => {
  expect(drawn([PROFILE])).not.toContain('Two GPUs.');
  const html = drawn([PROFILE], { isChosen: true });
  expect(html).toContain('Two GPUs. Published by ada.');
  expect(html).toContain('It counts on one line in the script:');
  expect(html).toContain('overflow-wrap:anywhere">callbacks=[Follow()]</code>');
});

it('tells teams apart where there are several', () => {
  expect(drawn([PROFILE])).toContain('>ddp</option>');
  const two = [PROFILE, { ...PROFILE, team: 'nlp' }];
  expect(drawn(two)).toContain('>nlp/ddp</option>');
});

it('offers who leads a team to publish the form, and to remove the chosen one', () => {
  const html = drawn([PROFILE], {
    isChosen: true,
    whoami: { leads: ['vision'] }
  });
  expect(html).toContain('Publish as a profile of the team');
  expect(html).toContain('Remove ddp');
});

it('looks again when the reader comes back to the form, so that what was published meanwhile is there', async () => {
  vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true);
  vi.useFakeTimers();
  const api = fakeApi();
  const found = [[], [PROFILE], [PROFILE]];
  const asked = vi
    .spyOn(api, 'request')
    .mockImplementation(() =>
      Promise.resolve({ profiles: found.shift() } as never)
    );
  const train = new TrainModel(api, () => false);
  let seen: ReturnType<typeof useProfiles> | null = null;
  const Form = () => {
    seen = useProfiles();
    return null;
  };
  const root = createRoot(document.createElement('div'));
  await act(async () => {
    root.render(
      React.createElement(
        PanelContext.Provider,
        { value: { train, msg, model: {} } as never },
        React.createElement(Form)
      )
    );
    await Promise.resolve();
  });
  const names = () => seen?.profiles?.map(each => each.name);
  expect(names()).toEqual([]);
  await act(async () => {
    seen?.again();
    await Promise.resolve();
  });
  expect(asked).toHaveBeenCalledTimes(1);
  vi.setSystemTime(Date.now() + 6000);
  await act(async () => {
    seen?.again();
    await Promise.resolve();
  });
  expect(names()).toEqual(['ddp']);
  act(() => {
    root.unmount();
  });
  vi.useRealTimers();
});
