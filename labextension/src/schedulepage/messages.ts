/** Sentences of the page of schedules, which come with its code. */
import { count, duration } from '../text/format';
import type { Messages } from '../text/messages';
import { FORGOTTEN } from '../server/schedules';
import type { ISchedule, IScheduleRun, ITrigger } from '../server/schedules';
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
        'No schedules yet. Choose “On a schedule, or by triggers” in Train to make one.'
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

    why({ by_hand: byHand, cause }: IScheduleRun): string {
      return cause || (byHand ? trans.__('by hand') : trans.__('schedule'));
    },

    /** `When data/ changed`, `After clean finished`. */
    trigger({ kind, what, on, below }: ITrigger): string {
      if (kind === 'metric') {
        return trans.__('When %1 fell below %2.', what, below ?? '');
      }
      if (kind !== 'after') {
        return kind === 'command'
          ? trans.__('When the output of %1 changed.', what)
          : trans.__('When %1 changed.', what);
      }
      return on === 'failed'
        ? trans.__('After %1 failed.', what)
        : on === 'any'
          ? trans.__('After %1 ended.', what)
          : trans.__('After %1 finished.', what);
    },

    /** What is known of it. */
    known(trigger: ITrigger, schedule: ISchedule): string {
      const { kind, version, every_s: every, changed_ms: changed } = trigger;
      const { name, time_zone: timeZone } = schedule;
      if (kind === 'after') {
        return '';
      }
      if (kind === 'metric') {
        return trigger.posted_ms == null
          ? trans.__(
              'Nothing was posted yet: gpucommons schedule metric %1 METRIC VALUE posts one.',
              name
            )
          : trans.__(
              'Last posted: %1, %2.',
              trigger.value ?? '',
              zonedWords(trigger.posted_ms, timeZone)
            );
      }
      const often = trans.__(
        'Looked at every %1.',
        duration((every ?? 0) * 1000)
      );
      if (!version) {
        return often;
      }
      const last =
        changed == null
          ? trans.__('No change yet.')
          : trans.__('Last change: %1.', zonedWords(changed, timeZone));
      return `${often} ${last} ${trans.__('Version %1.', version)}`;
    },

    /** Which model holds, and why; null where models are not compared. */
    promoted(schedule: ISchedule): string | null {
      const { compared_by: metric, promoted, time_zone: zone } = schedule;
      if (!metric) {
        return null;
      }
      return promoted
        ? trans.__(
            'Promoted: %1 (%2), since %3. Its results stay.',
            promoted.job_name,
            promoted.why,
            zonedWords(promoted.since_ms, zone)
          )
        : trans.__('No model is promoted yet. Compared by %1.', metric);
    },

    verdict({ verdict, why }: IScheduleRun): string | null {
      switch (verdict) {
        case 'promoted':
          return trans.__('promoted: %1', why ?? '');
        case 'kept':
        case 'waits':
          return trans.__('not promoted: %1', why ?? '');
        case 'none':
          return trans.__('not compared: %1', why ?? '');
        default:
          return null;
      }
    },

    /** Of a run's job, also of one that the panel's list has left. */
    jobState({ job_state: state }: IScheduleRun): string {
      if (state == null) {
        return ''; // a scheduler of an earlier release, which does not say
      }
      return state === FORGOTTEN
        ? trans.__('its job is no longer kept')
        : (msg.stateWord(state) ?? state);
    },

    version({ version }: IScheduleRun): string {
      return trans.__('data %1', version ?? '');
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
