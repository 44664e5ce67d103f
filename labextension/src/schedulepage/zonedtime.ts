/** Times as the clock of a schedule shows them, whatever the reader's own says. Pure. */

export interface IZonedTime {
  /** `Tue`. */
  weekday: string;
  /** `24 Nov`. */
  day: string;
  /** `02:00`. */
  time: string;
}

export function zonedTime(ms: number, timeZone: string): IZonedTime {
  const parts = formatOf(timeZone).formatToParts(ms);
  const part = (type: string) =>
    parts.find(each => each.type === type)?.value ?? '';
  return {
    weekday: part('weekday'),
    day: `${part('day')} ${part('month')}`,
    time: `${part('hour')}:${part('minute')}`
  };
}

/** `Tue 24 Nov 02:00`. */
export function zonedWords(ms: number, timeZone: string): string {
  const { weekday, day, time } = zonedTime(ms, timeZone);
  return `${weekday} ${day} ${time}`;
}

/** The reader's own zone, by its name. */
export function ownZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';
}

function formatOf(timeZone: string): Intl.DateTimeFormat {
  const options: Intl.DateTimeFormatOptions = {
    weekday: 'short',
    day: 'numeric',
    month: 'short',
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23'
  };
  try {
    return new Intl.DateTimeFormat('en-GB', { ...options, timeZone });
  } catch {
    // A zone that this browser does not know, though the scheduler does.
    return new Intl.DateTimeFormat('en-GB', { ...options, timeZone: 'UTC' });
  }
}
