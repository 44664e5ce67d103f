import { describe, expect, it } from 'vitest';

import { offeredSizes } from './sizes';

describe('sizes', () => {
  it('offer what the scheduler offers to the team, and what is chosen', () => {
    const few = { name: 'vision', mine: true, use: [], sizes: [0, 1000, 3000] };
    const many = { name: 'nlp', mine: true, use: [], sizes: [0, 8000] };

    expect(offeredSizes('vision', [few, many], 1000)).toEqual([0, 1000, 3000]);
    expect(offeredSizes('', [few, many], 1000)).toEqual([0, 1000, 3000, 8000]);
    expect(offeredSizes('nlp', [few, many], 500)).toEqual([0, 500, 8000]);
  });
});
