/** A button that goes away as it is pressed leaves the focus beside it, not on the page's body. */

export function keepFocus(node: HTMLElement): void {
  let path: HTMLElement[] = [];
  node.addEventListener('focusin', event => {
    const whole = event.composedPath() as HTMLElement[];
    path = whole.slice(0, whole.indexOf(node) + 1);
  });
  node.addEventListener('focusout', () => {
    const left = path;
    // Some browsers say it of what goes away, or rests while it is sent, too.
    setTimeout(() => {
      if (
        path === left &&
        left[0]?.isConnected &&
        !left[0].matches(':disabled')
      ) {
        path = [];
      }
    });
  });
  new MutationObserver(() => {
    const { body } = document;
    if (path[0]?.isConnected === false && document.activeElement === body) {
      // Among what it stood with, then among what that stood with.
      const found = path.some(each => {
        const next = each.querySelector<HTMLElement>('button:enabled');
        next?.focus();
        return document.activeElement !== body;
      });
      if (!found) {
        node.focus();
      }
    }
  }).observe(node, { childList: true, subtree: true });
}
