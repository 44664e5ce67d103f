import { expect, test } from 'vitest';

import { EMPTY_DRAFT, mistakeIn } from './sweep';

const DRAFT = {
  ...EMPTY_DRAFT,
  metric: 'accuracy',
  parameters: [{ name: '--lr', values: '0.1, 0.2', scale: 'choice' as const }]
};

test('a bound of GPU-hours that the server would refuse is named before it is sent', () => {
  for (const gpuHours of ['', '0.001', '30', '10000000']) {
    expect(mistakeIn({ ...DRAFT, gpuHours })).toBeNull();
  }
  for (const gpuHours of ['0', '-5', '1e99', '0.0000001', 'many', 'NaN']) {
    expect(mistakeIn({ ...DRAFT, gpuHours })?.field).toBe('gpuHours');
  }
});
