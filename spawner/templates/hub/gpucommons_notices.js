// JupyterHub's own script changes its buttons when a server is stopped on this page. What stands
// above them is told by the service, so it is fetched anew: while a server ends, where somebody comes
// back to the page, and now and then, as servers are started and stopped elsewhere, too.
(() => {
  const EACH_MS = 2000;
  const NOW_AND_THEN_MS = 20000;
  // A server may take a while to end, and longer to tell what it kept.
  const WATCHED_MS = 90000;
  const PLACE = '[data-gpucommons="notices"]';
  let untilMs = 0;

  // Which servers the page offers to stop: the hub hides the buttons of the others, or leaves them out.
  function running(page) {
    const buttons = page.querySelectorAll('#stop, .stop-server:not(.hidden)');
    return Array.from(buttons, one =>
      one.style.display === 'none'
        ? ''
        : `${one.closest('[data-server-name]')?.dataset.serverName ?? ''}/`
    ).join('');
  }

  // A name that is being typed, or a click that is being answered, must not be lost.
  function isUsed() {
    const name = document.querySelector('.new-server-name');
    return Boolean(name?.value) || Date.now() < untilMs;
  }

  async function refresh() {
    try {
      const answer = await fetch(location.href, { credentials: 'same-origin' });
      const text = answer.ok ? await answer.text() : '';
      const page = new DOMParser().parseFromString(text, 'text/html');
      if (page.querySelector(PLACE) && running(page) !== running(document) && !isUsed()) {
        location.reload();
        return;
      }
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
  const look = () => {
    if (!document.hidden) {
      void refresh();
    }
  };
  document.addEventListener('visibilitychange', look);
  setInterval(look, NOW_AND_THEN_MS);
})();
