// JupyterHub's own script changes its buttons when a server is stopped on this page. What stands
// above them is told by the service, so it is fetched anew: while a server ends, and where somebody
// comes back to the page.
(() => {
  const EACH_MS = 2000;
  // A server may take a while to end, and longer to tell what it kept.
  const WATCHED_MS = 90000;
  const PLACE = '[data-gpucommons="notices"]';
  let untilMs = 0;

  async function refresh() {
    try {
      const answer = await fetch(location.href, { credentials: 'same-origin' });
      const text = answer.ok ? await answer.text() : '';
      const page = new DOMParser().parseFromString(text, 'text/html');
      const [old, now] = [document, page].map(one => one.querySelector(PLACE));
      // The page of a login has no such place.
      if (now && old.innerHTML !== now.innerHTML) {
        old.replaceWith(document.adoptNode(now));
      }
    } catch {
      // The hub is away; the next one may reach it.
    }
  }

  async function watch() {
    const isWatching = Date.now() < untilMs;
    untilMs = Date.now() + WATCHED_MS;
    if (isWatching) {
      return;
    }
    while (Date.now() < untilMs) {
      await new Promise(done => setTimeout(done, EACH_MS));
      await refresh();
    }
  }

  document.addEventListener('click', event => {
    if (event.target.closest('#stop, .stop-server')) {
      void watch();
    }
  });
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) {
      void refresh();
    }
  });
})();
