/** What people may set, and where it goes. */
import { ISettingRegistry } from '@jupyterlab/settingregistry';

import type { OnIdleChoice } from '../model/onidle';
import type { Seen } from '../model/greeted';
import type { Notices } from '../notices/notices';
import type { GpuPanel } from './widget';
import type { StatusItem } from './status';
import { PLUGIN_ID } from '../lab/ids';

export interface ISettable {
  panel: GpuPanel;
  status: StatusItem;
  notices: Notices;
  seen: Seen;
  onIdle: OnIdleChoice;
}

export async function applySettings(
  registry: ISettingRegistry,
  parts: ISettable
): Promise<void> {
  const settings = await registry.load(PLUGIN_ID);
  const apply = () => {
    parts.notices.tellsJobs = settings.get('tellJobs').composite === true;
    parts.status.setEnabled(settings.get('statusBar').composite === true);
    parts.onIdle.choose(settings.get('onIdle').composite as string);
    parts.panel.setFinishedShown(
      Number(settings.get('finishedJobs').composite)
    );
  };
  settings.changed.connect(apply);
  apply();
  parts.seen.take(settings);
}
