/** Asks how much is added to a sweep's budget. */
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import type { ISweep } from '../server/sweeps';
import type { SweepMessages } from './messages';

/** As it is typed. */
interface ITyped {
  trials: string;
  hours: string;
}

const PROPOSED: ITyped = { trials: '10', hours: '0' };
/** What the server takes at once. */
const MOST_TRIALS = 10_000;
const MOST_HOURS = 10_000_000;

/** Numbers that are typed into a dialog. */
class MoreBudget extends Widget {
  constructor(
    labels: { trials: string; hours: string | null; mistake: string },
    typed: ITyped
  ) {
    super();
    this.addClass('gc-MoreBudget');
    this._typed = typed;
    this._field(labels.trials, 'trials', trialsOf(typed) === null);
    if (labels.hours !== null) {
      this._field(labels.hours, 'hours', hoursOf(typed) === null);
    }
    if (labels.mistake) {
      const said = document.createElement('p');
      said.className = 'gc-Error';
      said.setAttribute('role', 'alert');
      said.textContent = labels.mistake;
      this.node.append(said);
    }
  }

  getValue(): ITyped {
    return this._typed;
  }

  private _field(text: string, name: keyof ITyped, isWrong: boolean): void {
    const label = document.createElement('label');
    label.textContent = text;
    const input = document.createElement('input');
    // A field for numbers would forget what is none.
    Object.assign(input, {
      inputMode: 'decimal',
      value: this._typed[name],
      className: 'jp-mod-styled'
    });
    input.setAttribute('aria-invalid', String(isWrong));
    input.addEventListener('input', () => {
      this._typed = { ...this._typed, [name]: input.value };
    });
    label.append(input);
    this.node.append(label);
  }

  private _typed: ITyped;
}

function trialsOf({ trials }: ITyped): number | null {
  const found = Number(trials);
  const isRight = Number.isInteger(found) && found >= 0 && found <= MOST_TRIALS;
  return isRight ? found : null;
}

function hoursOf({ hours }: ITyped): number | null {
  const found = Number(hours);
  return found >= 0 && found <= MOST_HOURS ? found : null;
}

/** What is added; null where that was called off. */
export async function askForMore(
  sweep: ISweep,
  msg: SweepMessages,
  typed = PROPOSED,
  mistake = ''
): Promise<{ trials: number; gpu_hours: number } | null> {
  const { trans } = msg;
  const { button, value } = await showDialog({
    title: msg.addTitle(sweep.name),
    body: new MoreBudget(
      {
        trials: trans.__('Trials'),
        // What has no bound in GPU-hours gets none by this.
        hours: sweep.budget_milli_gpu_s == null ? null : trans.__('GPU-hours'),
        mistake
      },
      typed
    ),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.okButton({ label: trans.__('Add') })
    ]
  });
  if (!button.accept || !value) {
    return null;
  }
  const [trials, hours] = [trialsOf(value), hoursOf(value)];
  if (trials === null || hours === null) {
    return askForMore(sweep, msg, value, msg.addWrong(sweep));
  }
  return trials + hours > 0
    ? { trials, gpu_hours: hours }
    : askForMore(sweep, msg, value, msg.addNothing(sweep));
}
