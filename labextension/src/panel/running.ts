/** Live jobs beside kernels and terminals in Lab's *Running* panel. */
import { IRunningSessionManagers, IRunningSessions } from '@jupyterlab/running';
import { CommandRegistry } from '@lumino/commands';
import { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';

import { told } from '../server/api';
import { gpuIcon } from '../lab/icons';
import { CommandIDs } from '../lab/ids';
import { canCancel, isFinal, sorted } from '../model/jobs';
import type { Messages } from '../text/messages';
import type { Model } from '../model/model';
import { IJob } from '../server/types';

export function addRunningJobs(
  managers: IRunningSessionManagers,
  model: Model,
  msg: Messages,
  commands: CommandRegistry
): IDisposable {
  const changed = new Signal<object, void>(model);
  model.changed.connect((_, topic) => {
    if (topic === 'jobs') {
      changed.emit();
    }
  }, changed);
  const live = () =>
    sorted(model.jobs ?? []).filter(
      job =>
        !isFinal(job) && (job.owner === '' || job.owner === model.whoami?.name)
    );
  const cancel = (job: IJob) => {
    void commands.execute(CommandIDs.cancelJob, { job: job.id });
  };
  const item = (job: IJob): IRunningSessions.IRunningItem => ({
    icon: () => gpuIcon,
    label: () => job.name,
    labelTitle: () => `${job.name}: ${msg.state(job)}`,
    detail: () => `${msg.state(job)} · ${msg.gpuCount(job.milli_gpu)}`,
    open: () => {
      void commands.execute(CommandIDs.openJob, { job: job.id });
    },
    shutdown: () => {
      cancel(job);
    }
  });
  return managers.add({
    name: msg.trans.__('Training Jobs'),
    running: () => live().map(item),
    // The dialog of the panel has asked already.
    shutdownAll: () => {
      for (const job of live().filter(canCancel)) {
        model.api.act(job.id, 'cancel').then(
          changed => {
            model.take(changed);
          },
          (error: unknown) => {
            model.failed.emit(`${job.name}: ${told(error)}`);
          }
        );
      }
    },
    refreshRunning: () => undefined,
    runningChanged: changed,
    shutdownLabel: msg.trans.__('Cancel job'),
    shutdownAllLabel: msg.trans.__('Cancel All'),
    shutdownAllConfirmationText: msg.trans.__(
      'Cancel all of your training jobs? None of them goes on by itself.'
    )
  });
}
