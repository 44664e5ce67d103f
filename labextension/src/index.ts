/** The plugins: the model is made once and handed to the sidebar, status bar and job pages. */
import {
  IConnectionLost,
  ILabShell,
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin,
  JupyterLab
} from '@jupyterlab/application';
import { ICommandPalette, WidgetTracker } from '@jupyterlab/apputils';
import { IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { ILauncher } from '@jupyterlab/launcher';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IRunningSessionManagers } from '@jupyterlab/running';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { PageConfig } from '@jupyterlab/coreutils';

import { Api } from './server/api';
import { keepLoggedIn } from './server/login';
import { addCommands } from './commands/commands';
import { addPages } from './commands/pages';
import type { IPanelContext } from './components/context';
import { DocumentWatcher } from './submission/documents';
import { OnIdleChoice } from './model/onidle';
import { Seen } from './model/greeted';
import { addCards, welcome } from './greeting/welcome';
import { CATEGORY, CommandIDs, PANEL_RANK, PLUGIN_ID } from './lab/ids';
import { languageCookie } from './lab/language';
import { JobWidget } from './jobpage/jobwidget';
import { messages } from './text/messages';
import { Model, type Topic } from './model/model';
import { Notices } from './notices/notices';
import { GpuPanel } from './panel/widget';
import { addRunningJobs } from './panel/running';
import { IGpuServer } from './model/gpuserver';
import { applySettings } from './panel/settings';
import { StatusItem } from './panel/status';
import { tellStops } from './notices/stoppeddialog';
import { TrainModel } from './submission/train';

/** What the server says, for all plugins: one connection, one model. */
const server: JupyterFrontEndPlugin<IGpuServer> = {
  id: 'gpucommons:server',
  description: 'What is known of GPUs, jobs and the notebook server itself.',
  autoStart: true,
  provides: IGpuServer,
  optional: [ITranslator],
  activate: (
    app: JupyterFrontEnd,
    translator: ITranslator | null
  ): IGpuServer => {
    const msg = messages((translator ?? nullTranslator).load('gpucommons'));
    const { serviceManager } = app;
    if (PageConfig.getOption('hubUser')) {
      tellPages(translator);
      // Each kind of service has settings of its own, or shares those of all.
      const { kernels, sessions, contents } = serviceManager;
      new Set(
        [serviceManager, kernels, sessions, contents].map(
          each => each.serverSettings
        )
      ).forEach(each => {
        if (each) {
          keepLoggedIn(each);
        }
      });
    }
    const api = new Api(
      serviceManager.serverSettings,
      translator?.languageCode,
      `${msg.stoppedTitle()}.`
    );
    return { msg, model: new Model(api, number => msg.attempt(number)) };
  }
};

function tellPages(translator: ITranslator | null): void {
  const cookie = languageCookie(
    translator?.languageCode ?? 'en',
    PageConfig.getOption('hubPrefix') || '/hub/',
    window.localStorage
  );
  if (cookie !== null) {
    document.cookie = cookie;
  }
}

/** In place of the hub extension's, which only knows that the server is gone (see package.json). */
const connectionLost: JupyterFrontEndPlugin<IConnectionLost> = {
  id: 'gpucommons:connection-lost',
  description: 'Says why a notebook server is gone and starts it again.',
  autoStart: true,
  provides: IConnectionLost,
  requires: [IGpuServer],
  optional: [JupyterLab.IInfo],
  activate: (
    app: JupyterFrontEnd,
    gpuServer: IGpuServer,
    info: JupyterLab.IInfo | null
  ) => tellStops({ app, ...gpuServer, info })
};

const plugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN_ID,
  description: 'Shares GPUs: live use, quotas, training jobs.',
  autoStart: true,
  requires: [IGpuServer],
  optional: [
    ILabShell,
    ILayoutRestorer,
    ICommandPalette,
    IStatusBar,
    ISettingRegistry,
    INotebookTracker,
    IFileBrowserFactory,
    IRunningSessionManagers,
    ILauncher
  ],
  activate: (
    app: JupyterFrontEnd,
    gpuServer: IGpuServer,
    labShell: ILabShell | null,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null,
    statusBar: IStatusBar | null,
    settings: ISettingRegistry | null,
    notebooks: INotebookTracker | null,
    files: IFileBrowserFactory | null,
    running: IRunningSessionManagers | null,
    launcher: ILauncher | null
  ) => {
    const { model, msg } = gpuServer;
    const { commands, shell } = app;
    const { api } = model;
    const seen = new Seen();
    const train = new TrainModel(api, () => model.connection === 'ok');
    const context: IPanelContext = {
      model,
      train,
      msg,
      commands,
      seen,
      finishedShown: 3
    };

    model.changed.connect((_, topic) => {
      // What is free has changed with what the teams hold.
      if (topic === 'status' || topic === 'teams') {
        train.refreshQuote();
      }
    });
    // Members of several teams most likely train for the one that holds their notebook's GPU.
    model.changed.connect((_, topic) => {
      const team = model.lease?.team;
      const mayChoose = (model.whoami?.teams.length ?? 0) > 1;
      if (topic === 'lease' && team && mayChoose && train.form.team === '') {
        train.update({ team });
      }
    });

    const panel = new GpuPanel(context);
    shell.add(panel, 'left', { rank: PANEL_RANK });
    restorer?.add(panel, panel.id);

    const tracker = new WidgetTracker<JobWidget>({ namespace: 'gpucommons' });
    const pageOf = (id: string): JobWidget =>
      tracker.find(each => each.jobId === id) ?? new JobWidget(context, id);
    const openJob = (id: string, from?: string) => {
      const page = pageOf(id);
      const old = tracker.find(each => each.jobId === from);
      if (!tracker.has(page)) {
        // Notebook 7 keeps its main area for one document, and its lower panel opens closed.
        const place = old ? { ref: old.id } : {};
        shell.add(page, labShell ? 'main' : 'right', place);
        void tracker.add(page);
      }
      shell.activateById(page.id);
      old?.dispose();
    };

    addPages({ app, context, labShell, files });

    addCommands({
      app,
      model,
      train,
      msg,
      notebooks,
      files,
      showPanel: place => {
        shell.activateById(panel.id);
        // A palette that closes gives the focus back to the document, in the next frame.
        requestAnimationFrame(() => {
          requestAnimationFrame(() => {
            if (place) {
              train.goTo(place);
            } else {
              panel.takeFocus();
            }
          });
        });
      },
      openJob,
      currentJob: () =>
        shell.currentWidget === tracker.currentWidget
          ? (tracker.currentWidget?.jobId ?? null)
          : null
    });
    for (const command of Object.values(CommandIDs)) {
      palette?.addItem({ command, category: CATEGORY });
    }
    if (restorer) {
      void restorer.restore(tracker, {
        command: CommandIDs.openJob,
        args: page => ({ job: page.jobId }),
        name: page => page.jobId
      });
    }
    new DocumentWatcher(app, labShell, train);

    const status = new StatusItem(model, msg, commands);
    statusBar?.registerStatusItem(PLUGIN_ID, {
      item: status,
      align: 'left',
      rank: 100,
      isActive: () => status.isActive,
      activeStateChanged: status.activeChanged
    });
    if (running) {
      addRunningJobs(running, model, msg, commands);
    }
    if (notebooks) {
      const showLate = () => {
        notebooks.widgetAdded.disconnect(showLate);
        void import(
          /* webpackChunkName: "page-lateoutputs" */ './outputs/opened'
        ).then(({ opened }) => {
          opened(context, notebooks);
        });
      };
      notebooks.widgetAdded.connect(showLate);
      const watch = (_: Model, topic: Topic) => {
        const count = model.lostKernels.length + model.wokenKernels.length;
        if (topic === 'kernels' && count > 0) {
          model.changed.disconnect(watch);
          void import(
            /* webpackChunkName: "page-lostkernels" */ './notices/lostkernels'
          ).then(
            ({ LostKernels }) =>
              new LostKernels(model, notebooks, msg, commands)
          );
        }
      };
      model.changed.connect(watch);
    }
    const notices = new Notices(model, msg, commands, train);
    if (settings) {
      const onIdle = new OnIdleChoice(model);
      void applySettings(settings, { panel, status, notices, seen, onIdle });
    }
    if (launcher) {
      addCards(launcher);
    }
    welcome(app, seen, () => {
      shell.activateById(panel.id);
    });
    api.connect();
    void app.restored.then(async () => {
      // Who may not load them is told nothing.
      const stored = await api.stored().catch(() => []);
      if (stored.length > 0) {
        const { offerStored } = await import(
          /* webpackChunkName: "page-stored" */ './notices/storedvariables'
        );
        offerStored(stored, { api, msg, commands, notebooks });
      }
    });
  }
};

export default [server, connectionLost, plugin];
