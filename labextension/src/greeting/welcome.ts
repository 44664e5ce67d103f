/** The first Lab of a user shows the panel, once; the launcher has its cards in every Lab. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ILauncher } from '@jupyterlab/launcher';

import { CATEGORY, CommandIDs } from '../lab/ids';
import type { Seen } from '../model/greeted';

const WELCOME = 'welcome';
/** Lab's own: 0 notebooks, 20 consoles, 100 the rest. Elsewhere the cards stand last. */
const AFTER_NOTEBOOKS = 10;

export function welcome(
  app: JupyterFrontEnd,
  seen: Seen,
  show: () => void
): void {
  const greet = () => {
    if (seen.isKnown && !seen.has(WELCOME)) {
      seen.add(WELCOME);
      show();
    }
  };
  void app.restored.then(() => {
    seen.changed.connect(greet);
    greet();
  });
}

export function addCards(launcher: ILauncher): void {
  [CommandIDs.trainFile, CommandIDs.examples].forEach((command, rank) => {
    launcher.add({
      command,
      category: CATEGORY,
      categoryRank: AFTER_NOTEBOOKS,
      rank,
      args: { isLauncher: true }
    });
  });
}
