/** Commands about this notebook server: its GPU, the panel, the examples. */
import { Notification } from '@jupyterlab/apputils';
import { folderIcon } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';

import { adder, attempt, ICommandOptions, takes } from './commandoptions';
import { showFolder } from '../lab/folder';
import { gpuIcon } from '../lab/icons';
import { CommandIDs } from '../lab/ids';
import { idleLength, isKept, KEEP_MINUTES } from '../model/idle';
import type * as ConfirmDrop from '../notices/confirmdrop';
import { startAgain } from '../notices/stoppeddialog';

/** How long an answer stays in sight. */
const TOLD_MS = 8000;

export function addNotebookCommands(options: ICommandOptions): void {
  const { model, msg } = options;
  const { commands } = options.app;
  const add = adder(options);
  const { trans } = msg;
  add(CommandIDs.showPanel, {
    label: trans.__('Show GPU Commons'),
    icon: gpuIcon,
    execute: () => {
      options.showPanel();
    }
  });
  add(CommandIDs.reconnect, {
    label: trans.__('Reconnect to the Scheduler'),
    execute: () => {
      model.api.connect();
    }
  });
  add(CommandIDs.keepGpu, {
    label: () => {
      const left = model.lease?.idle?.keeps_left ?? 0;
      return left > 0
        ? trans.__('Keep the GPU %1 Minutes (%2 Left)', KEEP_MINUTES, left)
        : trans.__('Keep the GPU %1 Minutes Longer', KEEP_MINUTES);
    },
    isEnabled: () =>
      model.connection === 'ok' && (model.lease?.idle?.keeps_left ?? 0) > 0,
    execute: () =>
      attempt(options, async () => {
        if (model.lease) {
          const lease = await model.api.keep(model.lease.id, KEEP_MINUTES);
          model.setLease(lease);
          if (lease.idle && !isKept(lease.idle, model.clock.now())) {
            Notification.info(msg.keptAnyway(idleLength(lease.idle)), {
              autoClose: TOLD_MS
            });
          }
        }
      })
  });
  add(CommandIDs.startAgain, {
    label: trans.__('Start the Notebook Server Again'),
    isEnabled: () => model.gone?.startUrl != null,
    execute: async () => {
      if (model.gone) {
        await startAgain(model.gone, options);
      }
    }
  });
  add(CommandIDs.examples, {
    label: args =>
      args['isLauncher'] === true
        ? trans.__('Examples')
        : trans.__('Copy the Examples Here and Open Them'),
    caption: trans.__('Copies what is not there yet; nothing is overwritten'),
    icon: folderIcon,
    describedBy: takes({ isLauncher: { type: 'boolean' } }),
    execute: () =>
      attempt(options, async () => {
        const { folder, first } = await model.api.examples();
        await showFolder(commands, folder);
        await commands.execute('docmanager:open', { path: first });
        // Ready to be sent: the button is in sight, also where the panel is long.
        options.showPanel('submit');
      })
  });
  add(CommandIDs.storedVariables, {
    label: trans.__('Variables of Earlier Servers…'),
    execute: () =>
      attempt(options, async () => {
        const { showStored } = await import(
          /* webpackChunkName: "page-stored" */ '../notices/storedvariables'
        );
        await showStored({
          api: model.api,
          msg,
          commands,
          notebooks: options.notebooks
        });
      })
  });
  add(CommandIDs.hibernate, {
    label: trans.__('Hibernate…'),
    isEnabled: () => model.canHibernate,
    execute: () =>
      attempt(options, async () => {
        if (
          model.lease &&
          (await (await dropQuestions()).confirmHibernate(msg))
        ) {
          await saveAll(commands);
          model.setLease(await model.api.hibernate(model.lease.id));
        }
      })
  });
  add(CommandIDs.dropGpu, {
    label: trans.__('Drop to CPU…'),
    isEnabled: () => Boolean(model.lease?.slice),
    execute: () =>
      attempt(options, async () => {
        if (
          model.lease &&
          (await (await dropQuestions()).confirmDrop(msg, model.keeps))
        ) {
          await saveAll(commands);
          // Before the server that would send it is gone.
          const { reloadWhenBack } = await import(
            /* webpackChunkName: "page-stored" */ '../notices/returning'
          );
          model.setLease(await model.api.drop(model.lease.id));
          model.isRestarting = true;
          void reloadWhenBack(model.api, msg).finally(() => {
            model.isRestarting = false;
          });
        }
      })
  });
}

/** What is asked before a server gives its GPU back. */
export function dropQuestions(): Promise<typeof ConfirmDrop> {
  return import(/* webpackChunkName: "page-stored" */ '../notices/confirmdrop');
}

/** What is typed but not saved would go down with the server. */
async function saveAll(commands: CommandRegistry): Promise<void> {
  for (const name of ['docmanager:save-all', 'docmanager:save']) {
    if (commands.hasCommand(name) && commands.isEnabled(name)) {
      await commands.execute(name);
      return;
    }
  }
}
