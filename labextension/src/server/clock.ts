/**
 * The server's clock: "saved 40 s ago" and the idle countdown must not depend on how well the
 * reader's own machine keeps time.
 */
export class ServerClock {
  constructor(private readonly _localNow: () => number = Date.now) {}

  /** The server said what time it is. */
  set(serverNowMs: number): void {
    this._offsetMs = serverNowMs - this._localNow();
  }

  now(): number {
    return this._localNow() + this._offsetMs;
  }

  private _offsetMs = 0;
}
