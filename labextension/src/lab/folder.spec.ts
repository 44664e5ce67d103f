import { CommandRegistry } from '@lumino/commands';
import { beforeEach, expect, it, vi } from 'vitest';

import { showFolder } from './folder';

/** What was executed, in order. */
let done: string[] = [];

beforeEach(() => {
  done = [];
  vi.stubGlobal('requestAnimationFrame', (then: () => void) => {
    then();
  });
});

function lab(...ids: string[]): CommandRegistry {
  const commands = new CommandRegistry();
  for (const id of ids) {
    commands.addCommand(id, {
      describedBy: {},
      execute: args => {
        done.push(`${id} ${JSON.stringify(args)}`);
      }
    });
  }
  return commands;
}

it('shows the file browser before that enters the folder', async () => {
  const commands = lab('filebrowser:activate', 'filebrowser:open-path');
  expect(await showFolder(commands, 'results/a-1')).toBe(true);
  expect(done).toEqual([
    'filebrowser:activate {}',
    'filebrowser:open-path {"path":"results/a-1"}'
  ]);
});

it('says where there is no file browser', async () => {
  expect(await showFolder(lab(), 'results/a-1')).toBe(false);
});
