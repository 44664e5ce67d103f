import { expect, test } from 'vitest';

import { msg as words } from '../testing/make';
import { toldMessages } from './messages';

const msg = toldMessages(words);

test('a way says where it goes and of what, or why it cannot', () => {
  const mail = { about: ['idle', 'week'], to: 'ann@example.org', why_not: '' };
  expect(msg.channel(mail)).toBe(
    'To ann@example.org: my notebook is idle; the week in sums.'
  );
  expect(msg.channel({ ...mail, about: [] })).toBe('Nothing is chosen.');
  const whyNot =
    'This installation sends no mail: an admin can name a mail server.';
  expect(msg.channel({ ...mail, why_not: whyNot })).toBe(whyNot);
});

test('a message says what became of it, in the words of who did not take it', () => {
  const sent = {
    id: 'n1',
    channel: 'mail',
    subject: 'a test',
    made_ms: 0,
    fate: 'failed',
    said: 'Connection refused'
  };
  expect(msg.fate(sent)).toBe('not taken: Connection refused');
  expect(msg.fate({ ...sent, fate: 'sent', said: '' })).toBe('sent');
});
