import * as React from 'react';
import { createRoot } from 'react-dom/client';
import { afterEach, expect, it, vi } from 'vitest';

import { msg } from '../testing/make';
import { chunk } from './chunk';
import { PanelContext } from './context';

const Part = (props: { name: string }) =>
  React.createElement('p', {}, `Hello ${props.name}`);

function draw(component: React.ComponentType<{ name: string }>): HTMLElement {
  const node = document.body.appendChild(document.createElement('div'));
  createRoot(node).render(
    React.createElement(
      PanelContext.Provider,
      { value: { msg } as never },
      React.createElement(component, { name: 'you' })
    )
  );
  return node;
}

const says = (node: HTMLElement, text: string) =>
  vi.waitFor(() => {
    expect(node.textContent).toContain(text);
  });

afterEach(() => {
  document.body.textContent = '';
});

it('shows the part once its code has come, which is asked for once', async () => {
  let loads = 0;
  const Lazy = chunk(() => {
    loads += 1;
    return Promise.resolve(Part);
  });

  await says(draw(Lazy), 'Hello you');
  await says(draw(Lazy), 'Hello you');
  expect(loads).toBe(1);
});

it('says that its code does not come, and fetches it when asked again', async () => {
  const answers = [
    () => Promise.reject(new Error('404')),
    () => Promise.resolve(Part)
  ];
  const Lazy = chunk(() => answers.shift()?.() ?? Promise.resolve(Part));
  const node = draw(Lazy);

  await says(node, 'This part could not be loaded.');
  const again = node.querySelector('button');
  expect(again?.textContent).toBe('Try again');
  again?.click();

  await says(node, 'Hello you');
});
