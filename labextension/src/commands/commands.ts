/** Every action as a command: palette, menus, toolbar, notifications and buttons call these. */
import { InputDialog } from '@jupyterlab/apputils';
import { CommandRegistry } from '@lumino/commands';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { adder, attempt, ICommandOptions, takes } from './commandoptions';
import type { JobAction } from './confirmaction';
import { isRunnable, isSteps, runnablePath } from '../submission/documents';
import { gpuIcon } from '../lab/icons';
import { CommandIDs } from '../lab/ids';
import {
  askedBy,
  canCancel,
  canPause,
  canResume,
  canRunAgain,
  canRunFromHere,
  hasRequest,
  maySteer,
  sorted,
  startableWith
} from '../model/jobs';
import { addNotebookCommands, dropQuestions } from './notebookcommands';
import { trainFunctions } from '../submission/candidate';
import { IJob } from '../server/types';
import type { Messages } from '../text/messages';

type Args = ReadonlyPartialJSONObject;

const JOB_ARGS = takes({ job: { type: 'string' } });

export function addCommands(options: ICommandOptions): void {
  addNotebookCommands(options);
  addTrainCommands(options);
  addJobCommands(options);
}

function addTrainCommands(options: ICommandOptions): void {
  const { app, train, msg, notebooks } = options;
  const { commands } = app;
  const add = adder(options);
  const { trans } = msg;
  const hasNotebook = () => Boolean(notebooks?.currentWidget);
  notebooks?.currentChanged.connect(() => {
    commands.notifyCommandChanged(CommandIDs.trainNotebook);
  });
  add(CommandIDs.trainNotebook, {
    // The palette shows no captions: why it cannot be chosen is part of its name there.
    label: () =>
      hasNotebook()
        ? trans.__('Turn This Notebook into a Job')
        : trans.__('Turn a Notebook into a Job (Open One First)'),
    isEnabled: hasNotebook,
    icon: gpuIcon,
    execute: () => {
      const panel = notebooks?.currentWidget;
      if (panel) {
        const cell = panel.content.activeCell?.model.sharedModel.getSource();
        const [selected] = trainFunctions(cell ? [cell] : []);
        train.choose(panel.context.path, selected ?? '');
      } else if (train.form.source === null) {
        // A warning's button stays where its notebook was closed: it asks for the file.
        return commands.execute(CommandIDs.trainFile, { asks: true });
      }
      options.showPanel('first');
    }
  });
  add(CommandIDs.trainFile, {
    label: args =>
      args['isLauncher'] === true
        ? trans.__('Train on more GPUs')
        : trans.__('Run as a Job…'),
    caption: trans.__('Run a notebook or script as a job'),
    icon: gpuIcon,
    describedBy: takes({
      isLauncher: { type: 'boolean' },
      path: { type: 'string' },
      /** Ask for the file, whatever is in front. */
      asks: { type: 'boolean' }
    }),
    execute: async (args: Args) => {
      const path =
        text(args['path']) ??
        (args['asks'] === true || args['isContext'] === true
          ? null
          : runnablePath(app.shell.currentWidget)) ??
        (await chosenFile(options, args));
      if (path !== null && isSteps(path)) {
        await commands.execute(CommandIDs.runPipeline, { path });
        return;
      }
      if (path !== null) {
        train.choose(path);
      }
      // Without a file browser the form says to open a notebook or script first.
      if (path !== null || !options.files?.tracker.currentWidget) {
        options.showPanel('first');
      }
    }
  });
}

function addJobCommands(options: ICommandOptions): void {
  const { model, train, msg } = options;
  const add = adder(options);
  const { trans } = msg;
  add(CommandIDs.openJob, {
    label: trans.__('Open Job…'),
    describedBy: JOB_ARGS,
    execute: async (args: Args) => {
      const job = jobOf(options, args)?.id ?? text(args['job']);
      const id = job ?? (await chooseJob(options));
      if (id !== null) {
        options.openJob(id);
      }
    }
  });
  const sizeNow = (job: IJob | null) => (job ? startableWith(job, model) : 0);
  const act = (
    action: JobAction,
    label: string,
    can: (job: IJob) => boolean
  ): CommandRegistry.ICommandOptions => ({
    label,
    describedBy: JOB_ARGS,
    isEnabled: args => {
      const job = model.connection === 'ok' ? jobOf(options, args) : null;
      return job !== null && can(job) && maySteer(job, model.whoami);
    },
    execute: args =>
      attempt(options, async () => {
        const job = jobOf(options, args);
        if (job && (await confirmed(action, job, options))) {
          model.take(await model.api.act(job.id, action));
        }
      })
  });
  add(CommandIDs.pauseJob, act('pause', trans.__('Pause Job'), canPause));
  add(CommandIDs.resumeJob, act('resume', trans.__('Resume Job'), canResume));
  add(CommandIDs.cancelJob, act('cancel', trans.__('Cancel Job…'), canCancel));
  add(CommandIDs.startSmaller, {
    label: trans.__('Start the Job Now with Fewer GPUs'),
    describedBy: JOB_ARGS,
    isEnabled: args => sizeNow(jobOf(options, args)) > 0,
    execute: args =>
      attempt(options, async () => {
        const known = jobOf(options, args);
        const size = sizeNow(known);
        if (known === null || size === 0) {
          return;
        }
        // As it is now, and in full: who gives up a place in line shall get what the button says.
        const old = await model.api.job(known.id);
        if (sizeNow(old) < size) {
          throw new Error(msg.startNowNoMore(old.name, msg.gpuCount(size)));
        }
        model.take(await model.api.resize(old.id, size));
        options.openJob(old.id);
      })
  });
  add(CommandIDs.unblock, {
    label: trans.__('Give Back What the Job Waits For…'),
    describedBy: JOB_ARGS,
    isEnabled: args => Boolean(jobOf(options, args)?.reason?.blocker?.action),
    execute: args =>
      attempt(options, async () => {
        const blocker = jobOf(options, args)?.reason?.blocker;
        if (blocker?.action === 'pause') {
          const other = await model.api.job(blocker.id);
          if (await confirmed('pause', other, options)) {
            model.take(await model.api.act(other.id, 'pause'));
          }
        } else if (
          blocker?.action &&
          (await (await dropQuestions()).confirmDrop(msg))
        ) {
          await model.api.drop(blocker.id);
        }
      })
  });
  add(CommandIDs.runAgain, {
    label: trans.__('Run Job Again…'),
    describedBy: JOB_ARGS,
    isEnabled: args => {
      const job = jobOf(options, args);
      return job !== null && canRunAgain(job);
    },
    execute: args =>
      attempt(options, async () => {
        const known = jobOf(options, args);
        if (known) {
          const job = hasRequest(known) ? known : await model.api.job(known.id);
          train.prefill(askedBy(job, model.whoami));
          options.showPanel('submit');
        }
      })
  });
  add(CommandIDs.runFromHere, {
    label: trans.__('Run Job Again from Here'),
    describedBy: JOB_ARGS,
    isEnabled: args => {
      const job = model.connection === 'ok' ? jobOf(options, args) : null;
      return job !== null && canRunFromHere(job, model);
    },
    execute: args =>
      attempt(options, async () => {
        const old = jobOf(options, args);
        // What failed or was cancelled is to go on; what finished may have been pressed by mistake.
        if (old && (old.state !== 'succeeded' || (await isWanted(old, msg)))) {
          // Pressed twice it is the same wish.
          const key = `from-here-${old.id}`;
          const job = await model.api.again(old.id, '?from_here=true', key);
          model.add(job);
          options.openJob(job.id, old.id);
        }
      })
  });
}

/** The job meant: named, under the pointer of a context menu, or of the page in front. */
function jobOf(options: ICommandOptions, args: Args): IJob | null {
  // Lab remembers where a context menu was opened long after it was closed.
  const node =
    args['isContext'] === true
      ? options.app.contextMenuHitTest(
          each => each.dataset['job'] !== undefined
        )
      : undefined;
  const id = text(args['job']) ?? node?.dataset['job'] ?? options.currentJob();
  return options.model.jobs?.find(job => job.id === id) ?? null;
}

async function confirmed(
  action: JobAction,
  job: IJob,
  { model, msg }: ICommandOptions
): Promise<boolean> {
  const { confirmAction } = await import(
    /* webpackChunkName: "page-stored" */ './confirmaction'
  );
  return confirmAction(action, job, model, msg);
}

async function chooseJob({
  model,
  msg
}: ICommandOptions): Promise<string | null> {
  const jobs = sorted(model.jobs ?? []);
  const { value } = await InputDialog.getItem({
    title: msg.trans.__('Open Job'),
    items: jobs.map(job => `${job.team}/${job.name}`)
  });
  return jobs.find(job => `${job.team}/${job.name}` === value)?.id ?? null;
}

async function chosenFile(
  { app, files, msg }: ICommandOptions,
  args: Args
): Promise<string | null> {
  const { chooseFile, clickedFile } = await import(
    /* webpackChunkName: "page-choosing" */ '../lab/choosing'
  );
  return (
    (args['isContext'] === true ? clickedFile(app, files) : null) ??
    chooseFile(files, {
      title: msg.trans.__('Notebook, script or pipeline to run'),
      accepts: path => isRunnable(path) || isSteps(path)
    })
  );
}

function text(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

async function isWanted(old: IJob, msg: Messages): Promise<boolean> {
  const { confirmMore } = await import(
    /* webpackChunkName: "page-stored" */ '../notices/confirmmore'
  );
  return confirmMore(old, msg);
}
