// The *Reclaim* dialog: an idle notebook's user is asked first, a busy one needs force and a reason.
import { look } from './live.js';
import { post } from './net.js';
import { gettext } from './texts.js';

/** Listen for *Reclaim*, if GPUs may be taken back here. */
export function startReclaim() {
  const dialog = document.querySelector('dialog#reclaim');
  if (!dialog) {
    return;
  }
  let url = '';
  const form = dialog.querySelector('form');
  const part = name => dialog.querySelector(`[data-${name}]`);

  const askForForce = needed => {
    part('idle-text').hidden = needed;
    part('busy-text').hidden = !needed;
  };

  document.addEventListener('click', event => {
    const button = event.target.closest('[data-reclaim]');
    if (!button) {
      return;
    }
    const { owner, share, idle, state, asks } = button.dataset;
    url = button.dataset.reclaim;
    form.reset();
    part('title').textContent = gettext(
      'Take back %(share)s GPU from %(owner)s?',
      { share, owner }
    );
    part('busy-line').textContent = gettext(
      'This notebook is not idle (%(state)s). Without force the scheduler refuses.',
      { state }
    );
    part('idle-text').textContent = asks.trim();
    askForForce(idle !== 'yes');
    part('error').textContent = '';
    dialog.showModal();
  });
  part('cancel').addEventListener('click', () => dialog.close());
  form.addEventListener('submit', async event => {
    event.preventDefault();
    try {
      const { force, reason } = form.elements;
      const answer = await post(url, {
        force: force.checked,
        reason: reason.value
      });
      dialog.close();
      // First the row, so that it and the sentence below never say two things.
      await look().catch(look.failed);
      const said = document.querySelector('[data-said]');
      said.textContent = answer.text;
      said.hidden = false;
    } catch (error) {
      part('error').textContent = error.message;
      if (error.code === 'NotIdle' && part('busy-text').hidden) {
        // The row was older than the scheduler's own look, which says why: no need to say it twice.
        part('busy-line').textContent = '';
        askForForce(true);
        form.elements.force.focus();
      }
    }
  });
}
