/** Commands that open a page of the main area; all of it comes when it is first opened. */
import { pagesOf } from '../lab/ids';
import { takes } from './commandoptions';
import type { IPages } from './pagewidget';

export function addPages(options: IPages): void {
  const { app, context } = options;
  const { trans } = context.msg;
  for (const [command, label] of pagesOf(trans)) {
    app.commands.addCommand(command, {
      label: trans.__('Show %1', label),
      describedBy: takes({ wanted: { type: 'string' } }),
      execute: async ({ wanted }) => {
        const { openPage } = await import(
          /* webpackChunkName: "page-pages" */ './pagewidget'
        );
        openPage(options, command, label, wanted);
      }
    });
  }
}
