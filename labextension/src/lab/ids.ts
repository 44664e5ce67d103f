/** Names that commands, schema and widgets share. */
import type { TranslationBundle } from '@jupyterlab/translation';

export const CATEGORY = 'GPU Commons';

/** Settings and plugin id. */
export const PLUGIN_ID = 'gpucommons:panel';

export const PANEL_ID = 'gpucommons-panel';

/** Place among the icons of the left bar: the first third of what extensions may use. */
export const PANEL_RANK = 600;

export const CommandIDs = {
  showPanel: 'gpucommons:show-panel',
  trainNotebook: 'gpucommons:train-notebook',
  trainFile: 'gpucommons:train-file',
  openJob: 'gpucommons:open-job',
  schedules: 'gpucommons:schedules',
  pipelines: 'gpucommons:pipelines',
  runPipeline: 'gpucommons:run-pipeline',
  sweeps: 'gpucommons:sweeps',
  notifications: 'gpucommons:notifications',
  pauseJob: 'gpucommons:pause-job',
  resumeJob: 'gpucommons:resume-job',
  cancelJob: 'gpucommons:cancel-job',
  unblock: 'gpucommons:unblock',
  startSmaller: 'gpucommons:start-smaller',
  runAgain: 'gpucommons:run-again',
  runFromHere: 'gpucommons:run-from-here',
  keepGpu: 'gpucommons:keep-gpu',
  dropGpu: 'gpucommons:drop-gpu',
  hibernate: 'gpucommons:hibernate',
  startAgain: 'gpucommons:start-again',
  storedVariables: 'gpucommons:stored-variables',
  examples: 'gpucommons:examples',
  reconnect: 'gpucommons:reconnect'
} as const;

/** Commands that open a page of the main area, and what each shows. */
export const pagesOf = (trans: TranslationBundle) =>
  [
    [CommandIDs.schedules, trans.__('Schedules')],
    [CommandIDs.pipelines, trans.__('Pipelines')],
    [CommandIDs.sweeps, trans.__('Sweeps')],
    [CommandIDs.notifications, trans.__('Notifications')]
  ] as const;
