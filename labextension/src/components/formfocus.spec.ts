/** What was opened below the form stays in sight. */
import * as React from 'react';
import { act } from 'react';
import { createRoot, Root } from 'react-dom/client';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import type { TrainModel } from '../submission/train';
import { useFocus } from './formfocus';

const scrolled = vi.fn();
let root: Root;

function Form({ train }: { train: TrainModel }) {
  return React.createElement(
    'form',
    { ref: useFocus(train) },
    React.createElement(
      'section',
      { className: 'gc-Advice' },
      React.createElement('input', { id: 'model' })
    )
  );
}

beforeEach(() => {
  vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true);
  Element.prototype.scrollIntoView = scrolled;
  document.body.innerHTML =
    '<div class="gc-Panel-content"><p id="above"></p><div id="form"></div></div>';
  root = createRoot(byId('form'));
  const train = { wanted: 'advice' } as unknown as TrainModel;
  act(() => {
    root.render(React.createElement(Form, { train }));
  });
});
afterEach(() => {
  act(() => {
    root.unmount();
  });
  scrolled.mockClear();
  vi.unstubAllGlobals();
});

const byId = (id: string) => document.getElementById(id) as HTMLElement;

async function lineAbove(): Promise<number> {
  scrolled.mockClear();
  byId('above').append(document.createElement('p'));
  await new Promise(resolve => setTimeout(resolve));
  return scrolled.mock.calls.length;
}

it('is shown again when a line comes above it', async () => {
  expect(document.activeElement).toBe(byId('model'));
  expect(scrolled).toHaveBeenCalledOnce();
  expect(await lineAbove()).toBe(1);
  expect(await lineAbove()).toBe(1);
});

it.each(['pointerdown', 'wheel', 'keydown', 'touchmove'])(
  'is left where it is once somebody acts: %s',
  async name => {
    document.body.dispatchEvent(new Event(name, { bubbles: true }));
    expect(await lineAbove()).toBe(0);
  }
);

it('is let go with the form', async () => {
  act(() => {
    root.render(null);
  });
  expect(await lineAbove()).toBe(0);
});
