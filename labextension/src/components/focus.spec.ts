import { beforeEach, expect, it } from 'vitest';

import { keepFocus } from './focus';

let node: HTMLElement;

beforeEach(() => {
  document.body.innerHTML =
    '<div id="panel"><p><button id="a"></button><button id="b"></button></p></div>';
  node = document.getElementById('panel') as HTMLElement;
  keepFocus(node);
});

const button = (id: string) => document.getElementById(id) as HTMLElement;
const settled = () => new Promise(resolve => setTimeout(resolve));

it('leaves the focus beside a button that goes away', async () => {
  button('a').focus();
  button('a').remove();
  await settled();

  expect(document.activeElement).toBe(button('b'));
});

it('takes the focus from nobody who left it before', async () => {
  button('a').focus();
  button('a').blur();
  await settled();
  button('a').remove();
  await settled();

  expect(document.activeElement).toBe(document.body);
});

it('knows the button that the focus went on to', async () => {
  button('a').focus();
  button('b').focus();
  await settled();
  button('b').remove();
  await settled();

  expect(document.activeElement).toBe(button('a'));
});

it('stays within the part where no other button is left', async () => {
  document.body.append(document.createElement('button'));
  node.tabIndex = -1;
  button('a').focus();
  node.textContent = 'Loading…';
  await settled();

  expect(document.activeElement).toBe(node);
});
