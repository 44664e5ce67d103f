/** Which file is meant, where the command does not say: it comes when somebody has to choose. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { FileDialog, IFileBrowserFactory } from '@jupyterlab/filebrowser';

export interface IChoice {
  title: string;
  /** Which files may be chosen. */
  accepts: (path: string) => boolean;
}

/** The item under the pointer of the file browser's context menu. */
export function clickedFile(
  app: JupyterFrontEnd,
  files: IFileBrowserFactory | null
): string | null {
  const clicked = app.contextMenuHitTest(node =>
    node.classList.contains('jp-DirListing-item')
  );
  const [selected] = files?.tracker.currentWidget?.selectedItems() ?? [];
  return clicked && selected ? selected.path : null;
}

/** Lab's own dialog; null where it is closed, or there is no file browser. */
export async function chooseFile(
  files: IFileBrowserFactory | null,
  { title, accepts }: IChoice
): Promise<string | null> {
  const browser = files?.tracker.currentWidget;
  if (!browser) {
    return null;
  }
  const { value } = await FileDialog.getOpenFiles({
    manager: browser.model.manager,
    title,
    filter: item =>
      item.type === 'directory' || accepts(item.path) ? {} : null
  });
  return value?.[0]?.path ?? null;
}
