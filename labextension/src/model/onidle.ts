/** What its user has set for idle notebooks, told to the scheduler for each server on a GPU. */
import type { Model, Topic } from './model';

export class OnIdleChoice {
  constructor(private readonly _model: Model) {
    _model.changed.connect(this._onChanged, this);
  }

  /** `hibernate`, `release` or `cull`; empty: as was chosen when the notebook was started. */
  choose(onIdle: string): void {
    this._wanted = onIdle;
    this._tell();
  }

  private _onChanged(_: Model, topic: Topic): void {
    if (topic === 'lease') {
      this._tell();
    }
  }

  private _tell(): void {
    const { lease, api } = this._model;
    const idle = lease?.idle;
    const key = `${lease?.id}/${this._wanted}`;
    if (
      !lease ||
      !this._wanted ||
      this._wanted === idle?.on_idle ||
      !idle?.on_idle_allowed?.includes(this._wanted) ||
      this._told === key
    ) {
      return;
    }
    // Once for each server: who chooses otherwise for this one has the last word.
    this._told = key;
    api.chooseOnIdle(lease.id, this._wanted).then(
      changed => {
        this._model.setLease(changed);
      },
      // A setting of everybody's notebooks is no reason for an error on this one.
      () => undefined
    );
  }

  private _wanted = '';
  private _told = '';
}
