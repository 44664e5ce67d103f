/** A worker's log as the page keeps it: bounded, whole lines, no DOM. */

/** Older lines are dropped: a job may print for days. */
export const MAX_LINES = 5000;

/** Of several workers' logs in one, so many lines of a piece are shown, its last ones. */
export const SHOWN_OF_PIECE = 8;

/** As many workers' logs are read in one. */
export const MOST_IN_ONE = 16;

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
  /** Whose it is, where several workers' logs are one. */
  rank?: number;
  /** In place of so many of its lines. */
  folded?: number;
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
    attemptLine: (attempt: number) => string,
    rank?: number
  ): void {
    if (attempt !== this._attempt && lines.length > 0) {
      this._push({ text: attemptLine(attempt), isAttempt: true });
      this._attempt = attempt;
    }
    const left = rank === undefined ? 0 : lines.length - SHOWN_OF_PIECE;
    // One line would take the place of one line.
    const folded = left > 1 ? left : 0;
    const whose = rank === undefined ? {} : { rank };
    if (folded > 0) {
      this._push({ text: '', isAttempt: false, ...whose, folded });
    }
    for (const line of lines.slice(folded)) {
      this._push({ text: plain(line), isAttempt: false, ...whose });
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

  private _push(line: Omit<ILogLine, 'id'>): void {
    this.lines.push({ id: this._next++, ...line });
  }

  private _attempt = 0;
  private _next = 0;
}
