/** Names as users chose them, on screens: what has no form of its own is shown as its code. */

/**
 * Turns the direction of writing, breaks a line, or is not seen: a name would look like another. Fillers and
 * the blank of Braille are letters and signs to Unicode. What chooses the form of the picture before it is seen.
 */
const UNSEEN =
  /(?!(?<=\p{Extended_Pictographic})[\uFE0E\uFE0F])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu;
/** Nothing else: not one of them is seen. */
const BLANK = /^\p{Zs}+$/u;

export function visible(text: string): string {
  return BLANK.test(text)
    ? text.replace(/./gu, code)
    : text.replace(UNSEEN, code);
}

/** The end of a path: `train.ipynb`. */
export function fileName(path: string): string {
  return visible(path.slice(path.lastIndexOf('/') + 1));
}

function code(sign: string): string {
  return `\\u{${(sign.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}}`;
}
