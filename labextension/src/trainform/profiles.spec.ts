/** What the form shows of profiles, and to whom it offers to publish one. */
import * as React from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, it } from 'vitest';

import { PanelContext } from '../components/context';
import type { IProfile } from '../server/profiles';
import { taking } from '../submission/profile';
import { TrainModel } from '../submission/train';
import { msg } from '../testing/make';
import { fakeApi } from '../testing/sockets';
import { ProfileField, PublishProfile } from './profiles';

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
  expect(html).toContain('<code>callbacks=[Follow()]</code>');
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
