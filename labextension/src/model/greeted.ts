/**
 * What this user has been greeted with and closed: kept in Lab's settings, which lie on the server, so
 * that another browser does not begin anew. No DOM.
 */
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import { Signal } from '@lumino/signaling';

const KEY = 'seen';

export class Seen {
  readonly changed = new Signal<this, void>(this);

  /** False until it is known: nobody is greeted twice because an answer is late. */
  get isKnown(): boolean {
    return this._settings !== null;
  }

  take(settings: ISettingRegistry.ISettings): void {
    this._settings = settings;
    settings.changed.connect(() => {
      this.changed.emit();
    });
    this.changed.emit();
  }

  has(what: string): boolean {
    return this._added.has(what) || this._stored().includes(what);
  }

  /** From now on, in every browser; where it cannot be stored, on this page. */
  add(what: string): void {
    if (this.has(what)) {
      return;
    }
    this._added.add(what);
    this._settings
      ?.set(KEY, [...new Set([...this._stored(), ...this._added])])
      .catch((error: unknown) => {
        console.warn('What was closed could not be stored', error);
      });
    this.changed.emit();
  }

  private _stored(): string[] {
    const stored = this._settings?.get(KEY).composite;
    return Array.isArray(stored) ? stored.map(String) : [];
  }

  private _settings: ISettingRegistry.ISettings | null = null;
  private readonly _added = new Set<string>();
}
