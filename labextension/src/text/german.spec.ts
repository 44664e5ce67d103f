/** The panel in another language than English, with the catalogue that is shipped. */
import { Gettext } from '@jupyterlab/translation';
import { expect, it } from 'vitest';

import DATA from '../../locale/de_DE/LC_MESSAGES/gpucommons.json';
import { parkedMessages } from '../panel/parkedmessages';
import { makeForecast, makeJob } from '../testing/make';
import { trainMessages } from '../trainform/messages';
import { EMPTY_FORM } from '../submission/request';
import { messages } from './messages';

/** As JupyterLab loads it. */
function german(): ReturnType<typeof messages> {
  const bundle = new Gettext({ domain: 'gpucommons', locale: 'de-DE' });
  const { '': head, ...texts } = DATA;
  const read = { '': { ...head, pluralForms: head.plural_forms }, ...texts };
  bundle.loadJSON(read, 'gpucommons');
  return messages(bundle);
}

const msg = german();

it('speaks German with values in their places', () => {
  expect(msg.idleWarning('60 min')).toBe(
    'Die GPU geht nach 60 min Leerlauf zurück.'
  );
  expect(msg.likely(makeForecast())).toBe('wahrscheinlich 10–25 min');
  expect(msg.state(makeJob({ state: 'nominated' }))).toBe(
    'als nächster, Platz wird frei'
  );
});

it('counts one and many', () => {
  expect([1, 2].map(count => msg.waiting(count))).toEqual([
    '1 wartet',
    '2 warten'
  ]);
  expect([1, 3].map(count => msg.keepsLeft(count))).toEqual([
    'Sie können sie noch einmal behalten.',
    'Sie können sie noch 3-mal behalten.'
  ]);
});

it('writes places in line as German does', () => {
  expect([1, 2, 3, 11].map(place => msg.inLine(place))).toEqual([
    '1. in der Warteschlange',
    '2. in der Warteschlange',
    '3. in der Warteschlange',
    '11. in der Warteschlange'
  ]);
  expect(parkedMessages(msg).inLine(2, 0)).toBe(
    '2. in der Warteschlange. Die Zelle läuft von selbst weiter.'
  );
});

it('leaves no gap where a length has its unit in it', () => {
  expect(msg.activeTimer(['60', 'min'])).toBe(
    'Aktiv · Rückgabe nach Leerlauf von 60 min'
  );
  expect(msg.activeTimer(['10 min 30 s', ''])).toBe(
    'Aktiv · Rückgabe nach Leerlauf von 10 min 30 s'
  );
  expect(msg.keptAnyway(['10 min 30 s', ''])).toBe(
    'Ihre GPU bleibt Ihre: Sie geht ohnehin erst nach 10 min 30 s Leerlauf zurück.'
  );
});

it('speaks German in parts that come later', () => {
  const words = trainMessages(msg);
  expect(words.mistake({ field: 'workers' }, EMPTY_FORM)).toMatch(
    /^Worker: eine ganze Zahl von \d+ bis \d+\.$/
  );
  expect(words.files(2, 2048)).toBe('2 Dateien, 2.0 KiB');
});

it('says in English what the catalogue lacks', () => {
  expect(msg.trans.__('A text of tomorrow')).toBe('A text of tomorrow');
});
