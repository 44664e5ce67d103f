import { describe, expect, it } from 'vitest';

import { msg as words } from '../testing/make';
import { lostKernelMessages } from './lostkernelmessages';
import { lossOf, newsOf, parkedOf } from './lostkernels';

const msg = lostKernelMessages(words);

const LOST = [
  {
    kernel_id: 'k1',
    path: 'a.ipynb',
    because: 'One.',
    stored: 0,
    kept_until_ms: 0
  },
  { kernel_id: 'k2', path: '', because: 'Two.', stored: 0, kept_until_ms: 0 }
];

describe('a notebook whose kernel began anew', () => {
  it('is known by its kernel, also under another name', () => {
    expect(lossOf(LOST, 'renamed.ipynb', 'k1')?.because).toBe('One.');
  });

  it('is known by its path where its kernel is another one', () => {
    expect(lossOf(LOST, 'a.ipynb', 'new')?.because).toBe('One.');
  });

  it('is none of those that belong to no notebook', () => {
    expect(lossOf(LOST, '', undefined)).toBeNull();
  });
});

it('says of stored variables that they are not gone', () => {
  expect(msg.kernelLost('It was too large.', 0)).toContain('are gone');
  expect(msg.kernelLost('It was too large.', 3)).toBe(
    'The kernel of this notebook could not be kept. It was too large. 3 of its variables were stored.'
  );
});

it('says of a kernel that waits until when it is kept, and why', () => {
  const said = msg.kernelWaits('CRIU is missing.', Date.UTC(2026, 11, 3, 12));

  expect(said).toMatch(/is kept until (3 December|December 3), and/);
  expect(said).toContain('in its place. CRIU is missing. The next start');
  expect(said).not.toContain('gone');
});

describe('kernels that are back', () => {
  const back = (kernel_id: string, at_ms: number) => ({
    kernel_id,
    path: `${kernel_id}.ipynb`,
    at_ms,
    parked: '',
    moved: false
  });
  const day = 24 * 3600 * 1000;

  it('are told once in a browser, and not when it is no news', () => {
    const woken = [
      back('old', 1),
      back('told', 2 * day),
      back('new', 2 * day + 5)
    ];

    expect(newsOf(woken, 2 * day, 2 * day + 9)).toEqual([woken[2]]);
    expect(newsOf(woken, 0, 2 * day + 9)).toEqual(woken.slice(1));
    expect(newsOf(woken, 0, 9 * day)).toEqual([]);
  });

  it('say where their GPU memory did not come with them', () => {
    const woken = [back('a', 1), { ...back('b', 1), parked: 'No GPU.' }];

    expect(parkedOf(woken, 'a')).toBeNull();
    expect(parkedOf(woken, 'gone')).toBeNull();
    expect(msg.kernelParked(parkedOf(woken, 'b') ?? '')).toBe(
      'The kernel of this notebook is back, but not its GPU memory. No GPU. A cell that uses the GPU waits.'
    );
  });

  it('are named by their notebooks', () => {
    expect(msg.kernelsBack([''], false)).toBe(
      'Your kernel is back, with its variables.'
    );
    expect(msg.kernelsBack(['a.ipynb', 'b.ipynb'], false)).toBe(
      'Your 2 kernels are back, with their variables. a.ipynb, b.ipynb'
    );
    const beside = 'console-1-0b7bd3a8-3f49-4a59-9d3e-6a1f5a3a1c11';
    expect(msg.kernelsBack(['a.ipynb', beside, 'a.ipynb', ''], false)).toBe(
      'Your 4 kernels are back, with their variables. a.ipynb (2), console-1'
    );
    expect(msg.kernelsBack([''], true)).toBe(
      'Moved to another node, your kernel is back.'
    );
    expect(msg.kernelsBack(['a.ipynb', 'b.ipynb'], true)).toBe(
      'Moved to another node, your 2 kernels are back. a.ipynb, b.ipynb'
    );
  });
});
