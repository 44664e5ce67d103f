/** Names as users chose them, on screens: what has no form of its own is shown as its code. */

/** Turns the direction of writing, breaks a line, or is not seen: a name would look like another. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

export function visible(text: string): string {
  return text.replace(
    UNSEEN,
    sign => `\\u{${(sign.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}}`
  );
}
