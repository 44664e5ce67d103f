/** Sentences of the page of schedules, which come with its code. */
import { count, duration } from '../text/format';
import type { Messages } from '../text/messages';
import type { ISchedule, IScheduleRun } from '../server/schedules';
import { zonedWords } from './zonedtime';

/** More in a row are not counted one by one. */
const COUNTED = 1000;

export type ScheduleMessages = ReturnType<typeof scheduleMessages>;

export function scheduleMessages(msg: Messages) {
  const { trans } = msg;
  return {
    ...msg,

    none(): string {
      return trans.__(
        'No schedules yet. Choose “On a schedule” in Train to make one.'
      );
    },

    suspended({ held }: ISchedule): string {
      return held
        ? trans.__('suspended by a lead or an admin')
        : trans.__('suspended');
    },

    /** What holds for all of its times. */
    rules(schedule: ISchedule): string {
      const { concurrency_policy: policy, starting_deadline_s: late } =
        schedule;
      const whileOn =
        {
          Allow: trans.__('While one runs, the next starts beside it.'),
          Forbid: trans.__('While one runs, the next is skipped.'),
          Replace: trans.__('While one runs, it is cancelled for the next.')
        }[policy] ?? '';
      const deadline =
        late == null
          ? ''
          : trans.__('Starts at most %1 late.', duration(late * 1000));
      const missed = trans.__(
        'Of several missed times only the last is made up for.'
      );
      return [whileOn, deadline, missed].filter(Boolean).join(' ');
    },

    waits(schedule: ISchedule): string | null {
      if (schedule.hindrance) {
        return trans.__('A run is due and waits: %1', schedule.hindrance);
      }
      return schedule.asked
        ? trans.__('A run was asked for. It starts within seconds.')
        : null;
    },

    /** `Tue 24 Nov 02:00 – Wed 25 Nov 02:00, 2 times`. */
    when(run: IScheduleRun, timeZone: string): string {
      const from = zonedWords(run.due_ms, timeZone);
      if (run.until_ms == null) {
        return from;
      }
      const times =
        run.count >= COUNTED
          ? trans.__('at least %1 times', count(run.count))
          : trans.__('%1 times', count(run.count));
      return `${from} – ${zonedWords(run.until_ms, timeZone)}, ${times}`;
    },

    why({ by_hand: byHand }: IScheduleRun): string {
      return byHand ? trans.__('by hand') : trans.__('schedule');
    },

    outcome({ outcome }: IScheduleRun): string {
      return (
        {
          missed: trans.__('Missed:'),
          skipped: trans.__('Skipped:'),
          refused: trans.__('Refused:')
        }[outcome] ?? outcome
      );
    },

    removeTitle({ name }: ISchedule): string {
      return trans.__('Remove the schedule %1?', name);
    },

    removeBody({ name }: ISchedule): string {
      return trans.__(
        'No more runs of %1 start, and its record of times is gone. Jobs that it started stay.',
        name
      );
    }
  };
}
