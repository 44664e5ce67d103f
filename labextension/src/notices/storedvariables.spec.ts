import { nullTranslator } from '@jupyterlab/translation';

import { Notification } from '@jupyterlab/apputils';
import { describe, expect, it, vi } from 'vitest';

import type { IStored } from '../server/storedvariables';
import { messages } from '../text/messages';
import { offerHere, offerStored, toOffer } from './storedvariables';
import { dropBody } from './confirmdrop';
import { storedMessages } from './storedvariablemessages';

const msg = storedMessages(messages(nullTranslator.load('gpucommons')));

function stored(fields: Partial<IStored> = {}): IStored {
  return {
    kernel_id: 'one',
    path: 'a.ipynb',
    kept: ['x', 'y'],
    lost: [{ name: 'model', because: 'it holds an open file' }],
    size_bytes: 10,
    until_ms: 0,
    loaded_ms: null,
    ...fields
  };
}

describe('variables of the last server', () => {
  it('are offered once in a browser, and not after they were loaded', () => {
    const all = [
      stored(),
      stored({ kernel_id: 'two', loaded_ms: 5 }),
      stored({ kernel_id: 'three' })
    ];
    expect(toOffer(all, ['three']).map(each => each.kernel_id)).toEqual([
      'one'
    ]);
  });

  it('are offered by three, and the rest later', () => {
    const emit = vi.spyOn(Notification, 'emit').mockReturnValue('');
    const four = ['a', 'b', 'c', 'd'].map(kernel_id => stored({ kernel_id }));
    const options = { msg: messages(nullTranslator.load('')) } as never;
    const paths = new Set(['a.ipynb']);
    offerHere(four, options, paths);
    expect(emit).toHaveBeenCalledTimes(3);
    offerHere(four, options, paths);
    expect(emit).toHaveBeenCalledTimes(4);
    offerStored(four, options);
    offerHere(four, options, paths);
    expect(emit).toHaveBeenCalledTimes(4);
  });

  it('are counted, with what could not be kept and why', () => {
    expect(msg.storedText(stored())).toBe(
      '2 of 3 variables of a.ipynb were kept when your server was stopped.'
    );
    expect(msg.storedText(stored({ path: '' }))).toBe(
      '2 of 3 variables were kept when your server was stopped.'
    );
    expect(msg.storedText(stored({ path: '', kept: ['a'], lost: [] }))).toBe(
      '1 of 1 variable was kept when your server was stopped.'
    );
    expect(stored().lost.map(each => msg.notStored(each))).toEqual([
      'model could not be kept: it holds an open file'
    ]);
  });

  it('are promised before a stop only where the server keeps them', () => {
    expect(dropBody('nothing', msg)).toContain('its variables are lost');
    expect(dropBody('variables', msg)).toContain('that can be stored are kept');
    expect(dropBody('kernels', msg)).toContain('kernels are saved first');
    expect(dropBody('unknown', msg)).toContain('cannot keep');
    expect(msg.atReturn('nothing')).toBe('Otherwise its variables are lost.');
    expect(msg.atReturn('kernels')).toBe('Kernels that can be saved are kept.');
  });
});
