import { describe, expect, it, vi } from 'vitest';

import { OnIdleChoice } from './onidle';
import { Model } from './model';
import { makeLease } from '../testing/make';
import { fakeApi } from '../testing/sockets';

const idle = {
  keeps_left: 2,
  idle_after_min: 60,
  warn_after_min: 50,
  on_idle: 'hibernate',
  on_idle_allowed: ['hibernate', 'cull']
};

describe('what is set for idle notebooks', () => {
  function chosen(onIdle: string) {
    const model = new Model(fakeApi(), String);
    const lease = makeLease({ idle });
    const told = vi
      .spyOn(model.api, 'chooseOnIdle')
      .mockResolvedValue({ ...lease, idle: { ...idle, on_idle: onIdle } });
    new OnIdleChoice(model).choose(onIdle);
    model.setLease(lease);
    return { told, lease, model };
  }

  it('is told once for each server', () => {
    const { told, lease, model } = chosen('cull');
    model.setLease({ ...lease, idle: { ...idle } });

    expect(told).toHaveBeenCalledExactlyOnceWith(lease.id, 'cull');
  });

  it('is not told where it is so already, not allowed, or not set', () => {
    for (const onIdle of ['hibernate', 'release', '']) {
      expect(chosen(onIdle).told).not.toHaveBeenCalled();
    }
  });
});
