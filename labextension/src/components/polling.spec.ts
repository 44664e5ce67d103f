/** When pages ask the server, and when they leave it alone. */
import * as React from 'react';
import { createRoot } from 'react-dom/client';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import { PanelContext } from './context';
import { useLooked } from './polling';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

/** A page that asks each second, in a tab that can be hidden, of a server that can be stopped. */
async function page() {
  const call = vi.fn(() => Promise.resolve('said'));
  const model = { connection: 'ok' };
  let shown = true;
  const Page = () => {
    useLooked(call, 1000);
    return null;
  };
  const value = { msg: {}, model, isShown: () => shown } as never;
  const drawn = React.createElement(PanelContext.Provider, { value });
  const root = createRoot(document.createElement('div'));
  root.render(React.cloneElement(drawn, {}, React.createElement(Page)));
  await vi.waitFor(() => {
    expect(call).toHaveBeenCalled();
  });
  const asked = async (seconds: number) => {
    call.mockClear();
    await vi.advanceTimersByTimeAsync(seconds * 1000);
    return call.mock.calls.length;
  };
  const show = (is: boolean) => {
    shown = is;
  };
  return { asked, model, show };
}

it('asks a server that was stopped nothing until the page is connected again', async () => {
  const { asked, model } = await page();
  expect(await asked(5)).toBe(5);
  model.connection = 'lost';
  expect(await asked(60)).toBe(0);
  model.connection = 'ok';
  expect(await asked(5)).toBe(5);
});

it('asks nothing while its tab lies behind another one', async () => {
  const { asked, show } = await page();
  show(false);
  expect(await asked(60)).toBe(0);
  show(true);
  expect(await asked(5)).toBe(5);
});
