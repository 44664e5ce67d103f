/** Names of secrets as they are typed: one in each line. Pure. */

export interface ISecretsResult {
  secrets: Record<string, string>;
  /** The first line that is no name. */
  wrong: string | null;
}

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;
const SECRET = /^[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?$/;

export function parseSecrets(text: string): ISecretsResult {
  const secrets: Record<string, string> = {};
  for (const raw of text.split('\n')) {
    const line = raw.trim();
    if (line === '') {
      continue;
    }
    // As in a file of variables, all behind the first sign of equality belongs to it.
    const at = line.indexOf('=');
    const name = line.slice(at + 1).trim();
    const variable =
      at < 0 ? name.toUpperCase().replace(/-/g, '_') : line.slice(0, at).trim();
    if (!VARIABLE.test(variable) || !SECRET.test(name)) {
      return { secrets: {}, wrong: line };
    }
    secrets[variable] = name;
  }
  return { secrets, wrong: null };
}
