import * as React from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, it } from 'vitest';

import type { IResults } from '../server/types';
import { makeJob, msg } from '../testing/make';
import { PanelContext } from '../components/context';
import { openable, Results } from './resultsview';

function shown(changes: Partial<IResults>): string {
  const results: IResults = {
    state: 'here',
    text: '2 files (5 B) are in results/train-7/ in the home folder of ann.',
    folder: 'results/train-7',
    count: 2,
    size_bytes: 5,
    files: [
      { path: 'model.pt', size_bytes: 3 },
      { path: 'out/loss.csv', size_bytes: 2 }
    ],
    not_brought: [],
    ...changes
  };
  const context = { msg, trans: msg.trans, commands: {}, model: {} };
  return renderToStaticMarkup(
    React.createElement(
      PanelContext.Provider,
      { value: context as never },
      React.createElement(Results, { results })
    )
  );
}

it('lists files with their sizes and opens them', () => {
  const page = shown({});
  expect(page).toContain('are in results/train-7/');
  expect(page).toContain('Open out/loss.csv');
  expect(page).toContain('Show the folder');
});

it('opens nothing that is not there', () => {
  const text = 'What it wrote was not copied: the disk is full.';
  const page = shown({ state: 'stayed', text });
  expect(page).toContain(text);
  expect(page).toContain('model.pt');
  expect(page).not.toMatch(/Show the folder|Open model/);
});

it('names what was not copied, and counts what it does not list', () => {
  const page = shown({
    count: 7,
    not_brought: [{ path: 'link', reason: 'is a link' }]
  });
  expect(page).toContain('and 5 more');
  expect(page).toContain('Not copied: link is a link.');
  const many = shown({
    not_brought: [{ path: 'link', reason: 'is a link' }],
    not_brought_count: 41
  });
  expect(many).toContain('and 40 more');
});

it('tells files that were all too large from none at all', () => {
  const files = { files: [], count: 0, folder: null };
  const reason = '(20.0 GiB) is beyond the 16.0 GiB that are copied for a job';
  const left = [{ path: 'model.bin', reason }];
  const text = 'Nothing that it wrote was copied.';
  const page = shown({ ...files, state: 'left_out', text, not_brought: left });
  expect(page).toContain('gc-tone-error');
  expect(page).toContain(`Not copied: model.bin ${reason}.`);
  const none = shown({ ...files, state: 'none', text: 'It wrote no files.' });
  expect(none).not.toContain('gc-tone-error');
});

it('opens nothing of a team-mate, whose folder is not here', () => {
  const results = { folder: 'results/train-7' } as IResults;
  const job = makeJob({ owner: 'ada' });
  const seenBy = (name: string) =>
    openable(results, job, { name, teams: ['vision'], admin: false }).folder;
  expect(seenBy('ada')).toBe('results/train-7');
  expect(seenBy('bob')).toBeNull();

  const page = shown({ folder: null });
  expect(page).toContain('model.pt');
  expect(page).not.toContain('Open model.pt');
  expect(page).not.toContain('Show the folder');
});
