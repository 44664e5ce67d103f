/**
 * Numbers as people write them. Pure, and free of words that would need translation; units are
 * international symbols.
 */

const GLYPHS: Record<number, string> = {
  125: '⅛',
  250: '¼',
  375: '⅜',
  500: '½',
  625: '⅝',
  750: '¾',
  875: '⅞'
};

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** What a person wrote, with a stop at its end: another sentence follows. */
export function asSentence(text: string): string {
  const trimmed = text.trim();
  return trimmed === '' || /[.!?…:;]$/.test(trimmed) ? trimmed : `${trimmed}.`;
}

/** `½`, `1`, `1½`, `0.3`. */
export function gpus(milliGpu: number): string {
  const whole = Math.floor(milliGpu / 1000);
  const rest = milliGpu % 1000;
  if (rest === 0) {
    return String(whole);
  }
  const glyph = GLYPHS[rest];
  return glyph ? `${whole || ''}${glyph}` : String(milliGpu / 1000);
}

/** MiB as GiB with one decimal: `19.4`. */
export function gib(mib: number): string {
  return (mib / 1024).toFixed(1);
}

/** `812 B`, `3.0 MiB`: as the scheduler writes sizes of files. */
export function bytes(count: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value.toFixed(unit === 0 ? 0 : 1)} ${units[unit] ?? ''}`;
}

/** `40 s`, `12 min`, `2 h 5 min`, `3 d`; never negative. */
export function duration(ms: number): string {
  const span = Math.max(0, ms);
  if (span < MINUTE) {
    return `${Math.floor(span / SECOND)} s`;
  }
  if (span < HOUR) {
    return `${Math.floor(span / MINUTE)} min`;
  }
  if (span < 2 * DAY) {
    const hours = Math.floor(span / HOUR);
    const minutes = Math.floor((span % HOUR) / MINUTE);
    return minutes > 0 ? `${hours} h ${minutes} min` : `${hours} h`;
  }
  return `${Math.floor(span / DAY)} d`;
}

/** How long a thing took: parts of a whole that is short add up to it. */
export function length(ms: number): string {
  const seconds = Math.round(ms / SECOND);
  const rest = seconds % 60;
  return seconds > 60 && seconds < 600 && rest
    ? `${(seconds - rest) / 60} min ${rest} s`
    : duration(seconds < 600 ? seconds * SECOND : ms + MINUTE / 2);
}

/** A rounded window in one unit: `[10, 25, 'min']`. */
export function span(fromMs: number, toMs: number): [number, number, string] {
  const [unit, name]: [number, string] =
    toMs <= 90 * MINUTE
      ? [MINUTE, 'min']
      : toMs <= 2 * DAY
        ? [HOUR, 'h']
        : [DAY, 'd'];
  return [Math.floor(fromMs / unit), Math.ceil(toMs / unit), name];
}

/** A countdown rounds up: it must never say 0 s while time is left. */
export function countdown(ms: number): string {
  const span = Math.max(0, ms);
  return span < 3 * MINUTE
    ? `${Math.ceil(span / SECOND)} s`
    : duration(span + MINUTE - 1);
}

/** Time of day of the reader: `10:58`. */
export function clock(ms: number): string {
  const at = new Date(ms);
  const two = (value: number) => String(value).padStart(2, '0');
  return `${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** In the words of the reader's browser: `3 December`. */
export function dayAndMonth(ms: number): string {
  return new Date(ms).toLocaleDateString(undefined, {
    day: 'numeric',
    month: 'long'
  });
}

/** To the second, where a minute is long. */
export function preciseClock(ms: number): string {
  return `${clock(ms)}:${String(new Date(ms).getSeconds()).padStart(2, '0')}`;
}

/** Milli-GPU·seconds as GPU hours: `0.41`. */
export function gpuHours(milliGpuS: number): string {
  const hours = milliGpuS / 3_600_000;
  return hours === 0 ? '0' : hours < 0.01 ? '< 0.01' : hours.toFixed(2);
}

/** `5,430`. */
export function count(n: number): string {
  return n.toLocaleString('en-US');
}

/** A metric in three digits; accuracies between 0 and 1 as per cent. */
export function metric(name: string, value: number): string {
  if (isShare(name, value)) {
    const percent = value * 100;
    return `${percent < 0.1 ? shortNumber(percent) : percent.toFixed(1)} %`;
  }
  return shortNumber(value);
}

export function isShare(name: string, value: number): boolean {
  return /acc/i.test(name) && value >= 0 && value <= 1;
}

/** `0.131`, `12.4`, `5430`, `1.2e-7`. */
export function shortNumber(value: number): string {
  const size = Math.abs(value);
  if (value === 0 || !Number.isFinite(value)) {
    return String(value);
  }
  if (size >= 1e6 || size < 1e-4) {
    return value.toExponential(1);
  }
  return size >= 1000
    ? String(Math.round(value))
    : String(Number(value.toPrecision(3)));
}

/** Share of a whole in per cent, 0…100, safe for empty wholes. */
export function percent(part: number, whole: number): number {
  return whole > 0 ? Math.min(100, Math.max(0, (100 * part) / whole)) : 0;
}
