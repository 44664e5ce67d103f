/** Shows a folder in Lab's file browser. */
import type { CommandRegistry } from '@lumino/commands';

const OPEN_PATH = 'filebrowser:open-path';
const SHOW_BROWSER = 'filebrowser:activate';

/** False where there is none: a notebook page of Notebook 7 has no file browser beside it. */
export async function showFolder(
  commands: CommandRegistry,
  folder: string
): Promise<boolean> {
  if (!commands.hasCommand(OPEN_PATH)) {
    return false;
  }
  // A browser that enters a folder while it is hidden gives its column of names no width, and
  // does not look again when it is shown.
  if (commands.hasCommand(SHOW_BROWSER)) {
    await commands.execute(SHOW_BROWSER);
  }
  await commands.execute(OPEN_PATH, { path: folder });
  await drawn();
  return true;
}

/** What was asked of widgets before is drawn. */
function drawn(): Promise<void> {
  return new Promise(resolve => {
    requestAnimationFrame(() => {
      requestAnimationFrame(() => {
        resolve();
      });
    });
  });
}
