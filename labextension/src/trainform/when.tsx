/** *When* of *Train*: once and now, or again and again, with the next times while they are typed. */
import * as React from 'react';

import { usePanel, useSignal, useWords } from '../components/context';
import { Fragment, h } from '../components/h';
import { ownZone, zonedWords } from '../schedulepage/zonedtime';
import { told } from '../server/api';
import { nextTimes } from '../server/schedules';
import { hasTriggers, triggersOf } from '../submission/triggers';
import { SelectField, TextField } from './fields';
import { trainMessages } from './messages';
import { Triggers } from './triggers';

const ONCE = 'once';
const SCHEDULED = 'schedule';
const NIGHTLY = '0 2 * * *';
const DEBOUNCE_MS = 300;

/** What the server says of the times that are typed; null until it has. */
export interface ITimes {
  next: number[];
  problem: string | null;
}

export function When(props: { times: ITimes | null }): React.JSX.Element {
  const { train, trans } = usePanel();
  const msg = useWords(trainMessages);
  const { form } = train;
  const { isScheduled, cron, timeZone } = form;
  const isTimed = cron.trim() !== '' || !hasTriggers(triggersOf(train));
  const missing = !isTimed
    ? null
    : timeZone.trim() === ''
      ? msg.zoneFirst()
      : cron.trim() === ''
        ? msg.timesFirst()
        : null;
  const problem = missing ?? props.times?.problem ?? null;
  return (
    <>
      <SelectField
        id="gc-when"
        label={trans.__('When')}
        value={isScheduled ? SCHEDULED : ONCE}
        options={[
          { value: ONCE, label: trans.__('Once, as soon as it fits') },
          { value: SCHEDULED, label: trans.__('On a schedule, or by triggers') }
        ]}
        onChange={value => {
          train.update(
            value === ONCE
              ? { isScheduled: false }
              : {
                  isScheduled: true,
                  cron: form.cron || NIGHTLY,
                  timeZone: form.timeZone || ownZone()
                }
          );
        }}
      />
      {isScheduled ? (
        <>
          <TextField
            field="cron"
            label={trans.__('Minute, hour, day, month, weekday')}
            placeholder={NIGHTLY}
          />
          <TextField
            field="timeZone"
            label={trans.__('Time zone')}
            placeholder={ownZone()}
          />
          <div aria-live="polite" id="gc-times">
            {problem !== null ? (
              <p className="gc-Error">{problem}</p>
            ) : props.times === null ? null : (
              <p className="gc-Hint">
                {msg.nextTimes(
                  props.times.next.map(each => zonedWords(each, form.timeZone))
                )}
              </p>
            )}
          </div>
          <Triggers />
          <p className="gc-Muted gc-Hint">{msg.ofRuns(form)}</p>
        </>
      ) : null}
    </>
  );
}

/** The next five times of what is typed, asked for once the typing rests. */
export function useTimes(): ITimes | null {
  const { model, train } = usePanel();
  useSignal(train.changed);
  const { isScheduled, cron, timeZone } = train.form;
  const [times, setTimes] = React.useState<ITimes | null>(null);
  React.useEffect(() => {
    setTimes(null);
    if (!isScheduled || timeZone.trim() === '' || cron.trim() === '') {
      return;
    }
    let isCurrent = true;
    const tell = (found: ITimes) => {
      if (isCurrent) {
        setTimes(found);
      }
    };
    const timer = window.setTimeout(() => {
      nextTimes(model.api, cron.trim(), timeZone.trim()).then(
        next => {
          tell({ next, problem: null });
        },
        (error: unknown) => {
          tell({ next: [], problem: told(error) });
        }
      );
    }, DEBOUNCE_MS);
    return () => {
      isCurrent = false;
      window.clearTimeout(timer);
    };
  }, [model, isScheduled, cron, timeZone]);
  return times;
}
