/**
 * What became of a notebook server that is gone, as the hub's page in its place says it: one page
 * tells people after a reload and a Lab that is still open. No DOM is kept; nothing of it is markup.
 */
export interface IStopped {
  /** "Stopped at 14:02: idle 60 min."; empty where the hub knows of no reason. */
  why: string;
  kept: string[];
  lost: string[];
  /** "½ GPU is free now."; empty where it is not. */
  again: string;
  /** Where it is started again, on this very host; null where the page does not say. */
  startUrl: string | null;
}

export function readStopped(html: string): IStopped {
  const page = new DOMParser().parseFromString(html, 'text/html');
  const told = (what: string) =>
    Array.from(
      page.querySelectorAll(`[data-gpucommons="${what}"]`),
      each => each.textContent?.trim() ?? ''
    );
  // The hub's own button leads to its form; ours is one press.
  const start =
    page.querySelector('a[data-gpucommons="start"]') ??
    page.getElementById('start');
  const href = start?.getAttribute('href') ?? '';
  return {
    why: told('why').join(' '),
    kept: told('kept'),
    lost: told('lost'),
    again: told('again').join(' '),
    startUrl: /^\/(?![/\\])/.test(href) ? href : null
  };
}
