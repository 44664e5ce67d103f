import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'gpucommons:panel',
  autoStart: true,
  activate: (_app: JupyterFrontEnd) => undefined
};

export default [plugin];
