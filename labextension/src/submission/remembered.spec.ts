import { beforeEach, expect, it } from 'vitest';

import { fakeApi } from '../testing/sockets';
import { recall, remember } from './remembered';
import { TrainModel } from './train';

const HOME = { environment: '/home/ann/venv', name: 'venv', python: '3.12' };

function opened(path: string, environments = [HOME]): TrainModel {
  const train = new TrainModel(fakeApi(), () => false);
  train.environments = { kind: 'folder', default: '', environments } as never;
  train.choose(path);
  recall(train);
  return train;
}

beforeEach(() => {
  localStorage.clear();
});

it('is there again for its file alone after the page was loaded anew', () => {
  remember('a.py', HOME.environment);
  expect(opened('a.py').form.environment).toBe(HOME.environment);
  expect(opened('b.py').form.environment).toBe('');
  remember('a.py', '');
  expect(opened('a.py').form.environment).toBe('');
});

it('is not taken where it is gone, or something else was chosen', () => {
  remember('a.py', HOME.environment);
  expect(opened('a.py', []).form.environment).toBe('');
  const train = opened('b.py');
  train.update({ environment: 'other' });
  recall(train);
  expect(train.form.environment).toBe('other');
});

it('keeps so many files, and nothing that another program left', () => {
  for (let number = 0; number < 60; number++) {
    remember(`${number}.py`, HOME.environment);
  }
  expect(opened('9.py').form.environment).toBe('');
  expect(opened('59.py').form.environment).toBe(HOME.environment);
  for (const key of Object.keys(localStorage)) {
    localStorage.setItem(key, '{');
  }
  expect(opened('59.py').form.environment).toBe('');
});
