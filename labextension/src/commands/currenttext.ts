/** A dialog's text that stays true while the dialog is open: what a pause costs grows meanwhile. */
import { Widget } from '@lumino/widgets';

const EVERY_MS = 2000;

export class CurrentText extends Widget {
  /** `ask` answers the text of now; an empty one, or none, leaves what stands there. */
  constructor(text: string, ask: () => Promise<string>) {
    super();
    this.node.textContent = text;
    this._timer = window.setInterval(() => {
      ask().then(
        said => {
          this.node.textContent = said || this.node.textContent;
        },
        () => undefined
      );
    }, EVERY_MS);
  }

  dispose(): void {
    window.clearInterval(this._timer);
    super.dispose();
  }

  private readonly _timer: number;
}
