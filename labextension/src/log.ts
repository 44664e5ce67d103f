/** A worker's log as the page keeps it: bounded, whole lines, no DOM. */

/** Older lines are dropped: a job may print for days. */
export const MAX_LINES = 5000;

/** What terminals obey and a page cannot: colours, cursor moves, titles. */
const ESCAPES =
  /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\^_])/g;

/** A line as a terminal would leave it: a progress bar that was drawn over and over stands once. */
export function plain(text: string): string {
  const drawn = text.replace(ESCAPES, '').replace(/\r+$/, '');
  return drawn.slice(drawn.lastIndexOf('\r') + 1);
}

export interface ILogLine {
  /** Grows by one for every line that ever came, so that rows keep their identity. */
  id: number;
  text: string;
  /** True for our own line that says where an attempt begins. */
  isAttempt: boolean;
}

export class LogBuffer {
  constructor(private readonly _maxLines = MAX_LINES) {}

  lines: ILogLine[] = [];

  /** How many lines were dropped at the top. */
  dropped = 0;
  ended = false;

  append(
    attempt: number,
    lines: readonly string[],
    end: boolean,
    attemptLine: (attempt: number) => string
  ): void {
    if (attempt !== this._attempt && lines.length > 0) {
      this._push(attemptLine(attempt), true);
      this._attempt = attempt;
    }
    for (const line of lines) {
      this._push(plain(line), false);
    }
    this.ended = end;
    const excess = this.lines.length - this._maxLines;
    if (excess > 0) {
      this.lines = this.lines.slice(excess);
      this.dropped += excess;
    }
  }

  clear(): void {
    this.lines = [];
    this._attempt = 0;
    this.dropped = 0;
    this.ended = false;
  }

  private _push(text: string, isAttempt: boolean): void {
    this.lines.push({ id: this._next++, text, isAttempt });
  }

  private _attempt = 0;
  private _next = 0;
}
