/** What is typed one to a line: names of secrets, and variables with their values. Pure. */

export interface ILines {
  /** By variable. */
  found: Record<string, string>;
  /** The first line that is neither. */
  wrong: string | null;
}

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;
const SECRET = /^[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?$/;

/** `NAME=value`; a secret is named alone too, as `hf-token`, and then its variable is `HF_TOKEN`. */
export function parseLines(text: string, areSecrets = false): ILines {
  const found: Record<string, string> = {};
  for (const raw of text.split('\n')) {
    const line = raw.trim();
    if (line === '') {
      continue;
    }
    // As in a file of variables, all behind the first sign of equality belongs to it.
    const at = line.indexOf('=');
    const value = line.slice(at + 1).trim();
    const variable =
      at < 0 && areSecrets
        ? value.toUpperCase().replace(/-/g, '_')
        : line.slice(0, Math.max(0, at)).trim();
    if (!VARIABLE.test(variable) || (areSecrets && !SECRET.test(value))) {
      return { found: {}, wrong: line };
    }
    found[variable] = value;
  }
  return { found, wrong: null };
}

type Values = Record<string, string>;

const UNWRITABLE = /^\s|\n|\s$/;

/** Those that no line can say: they go along as they are. */
export function unwritten(values: Values = {}): Values {
  return Object.fromEntries(
    Object.entries(values).filter(([, value]) => UNWRITABLE.test(value))
  );
}

/** As it would be typed. */
export function asLines(values: Values = {}): string {
  return Object.entries(values)
    .filter(([, value]) => !UNWRITABLE.test(value))
    .map(each => each.join('='))
    .join('\n');
}
