/** Asks how much is added to a sweep's budget. */
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import type { ISweep } from '../server/sweeps';
import type { SweepMessages } from './messages';

/** Numbers that are typed into a dialog. */
class MoreBudget extends Widget {
  constructor(labels: {
    trials: string;
    hours: string | null;
    mistake: string;
  }) {
    super();
    this.addClass('gc-MoreBudget');
    this._trials = this._field(labels.trials, '10');
    this._hours = labels.hours === null ? null : this._field(labels.hours, '0');
    if (labels.mistake) {
      const said = document.createElement('p');
      said.setAttribute('role', 'alert');
      said.textContent = labels.mistake;
      this.node.append(said);
    }
  }

  getValue(): { trials: number; gpu_hours: number } {
    return {
      trials: Math.max(0, Math.round(Number(this._trials.value) || 0)),
      gpu_hours: Math.max(0, Number(this._hours?.value ?? 0) || 0)
    };
  }

  private _field(text: string, value: string): HTMLInputElement {
    const label = document.createElement('label');
    label.textContent = text;
    const input = document.createElement('input');
    Object.assign(input, {
      type: 'number',
      min: '0',
      value,
      className: 'jp-mod-styled'
    });
    label.append(input);
    this.node.append(label);
    return input;
  }

  private readonly _trials: HTMLInputElement;
  private readonly _hours: HTMLInputElement | null;
}

/** What is added; null where that was called off. */
export async function askForMore(
  sweep: ISweep,
  msg: SweepMessages,
  mistake = ''
): Promise<{ trials: number; gpu_hours: number } | null> {
  const { trans } = msg;
  const { button, value } = await showDialog({
    title: msg.addTitle(sweep.name),
    body: new MoreBudget({
      trials: trans.__('Trials'),
      // What has no bound in GPU-hours gets none by this.
      hours: sweep.budget_milli_gpu_s == null ? null : trans.__('GPU-hours'),
      mistake
    }),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.okButton({ label: trans.__('Add') })
    ]
  });
  if (!button.accept || !value) {
    return null;
  }
  return value.trials + value.gpu_hours > 0
    ? value
    : askForMore(sweep, msg, msg.addNothing(sweep));
}
