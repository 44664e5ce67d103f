import { describe, expect, it } from 'vitest';

import { lossOf } from './lostkernels';

const LOST = [
  { kernel_id: 'k1', path: 'a.ipynb', because: 'One.' },
  { kernel_id: 'k2', path: '', because: 'Two.' }
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
