import { expect, it } from 'vitest';

import { EMPTY_FORM } from './request';
import { refusedField } from './refusals';

const form = {
  ...EMPTY_FORM,
  variables: 'LD_PRELOAD=x.so',
  secrets: 'GPUCOMMONS_KEY=my-key'
};

it('finds the field whose variable was refused', () => {
  const refused = (name: string) => `The variable ${name} may not be set: …`;
  expect(refusedField(refused('LD_PRELOAD'), form)).toBe('variables');
  expect(refusedField(refused('GPUCOMMONS_KEY'), form)).toBe('secrets');
  expect(
    refusedField('env.LD_PRELOAD: must have at most 8192 characters', form)
  ).toBe('variables');
  expect(refusedField('name: must have at most 50 characters', form)).toBe(
    'name'
  );
});

it('leaves below the form what no field of it says', () => {
  // Of a job that is run again, which brings variables of its own.
  expect(refusedField('The variable OTHER may not be set', form)).toBeNull();
  expect(refusedField('No node has 8 GPUs.', form)).toBeNull();
  expect(refusedField(null, form)).toBeNull();
});
