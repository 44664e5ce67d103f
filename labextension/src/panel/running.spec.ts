/** Lab's *Running* panel. */
import type {
  IRunningSessionManagers,
  IRunningSessions
} from '@jupyterlab/running';
import { CommandRegistry } from '@lumino/commands';
import { expect, it, vi } from 'vitest';

import { Model } from '../model/model';
import { addRunningJobs } from './running';
import { makeJob, msg } from '../testing/make';
import { fakeApi } from '../testing/sockets';

it('says which jobs could not be cancelled', async () => {
  const refused = () => new Response('{"message":"No."}', { status: 409 });
  const model = new Model(fakeApi(refused), String);
  model.whoami = { name: 'ada', teams: [] };
  model.jobs = [makeJob()];
  let added: IRunningSessions.IManager | undefined;
  const managers = {
    add: (manager: IRunningSessions.IManager) => (added = manager)
  };
  addRunningJobs(
    managers as unknown as IRunningSessionManagers,
    model,
    msg,
    new CommandRegistry()
  );
  const failed: string[] = [];
  model.failed.connect((_, text) => failed.push(text));
  added?.shutdownAll();

  await vi.waitFor(() => {
    expect(failed).toEqual(['digits-7: No.']);
  });
});
