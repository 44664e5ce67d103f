/** Sentences of the *Train* form, which come with its code. */
import type { ITriggerDraft, WrongTrigger } from '../submission/triggers';
import { bytes, clock, count, duration } from '../text/format';
import { fileName } from '../text/visible';
import type { Messages } from '../text/messages';
import {
  AUTO,
  EMPTY_FORM,
  IMistake,
  isWhole,
  ITrainForm,
  NumberName,
  PLAIN,
  range
} from '../submission/request';
import type { ExitMeaning, IFilesPreview, NoticeSignal } from '../server/types';

export type TrainMessages = ReturnType<typeof trainMessages>;

/** As the scheduler has it. */
export const NAME = /^[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?$/;
/** Of a package's own words, none of them a path. */
const MODULE = /^(?!.*\.py$)[^\s./\\]+(\.[^\s./\\]+)*$/;

export function trainMessages(msg: Messages) {
  const { trans } = msg;
  return {
    ...msg,

    thisFile(path: string, savedMs: number | null): string {
      const name = fileName(path);
      const saved = savedMs === null ? '' : clock(savedMs);
      const which = saved ? trans.__('%1, saved %2', name, saved) : name;
      return path.endsWith('.ipynb')
        ? trans.__('This notebook (%1)', which)
        : trans.__('This script (%1)', which);
    },

    number(name: NumberName): string {
      return {
        workers: trans.__('Workers'),
        minWorkers: trans.__('At least'),
        maxWorkers: trans.__('At most'),
        cpus: trans.__('CPU cores'),
        memoryGib: trans.__('Memory, GiB'),
        gpuMemoryGib: trans.__('GPU memory of each worker, GiB')
      }[name];
    },

    elastic(fewest: number, most: number): string {
      return trans.__(
        'Grows up to %2 workers on idle GPUs where its own reports show that it pays, and goes down to %1 before it is stopped. Each change is a new attempt from its last save.',
        fewest,
        most
      );
    },

    byMemory(): { label: string; title: string } {
      return {
        label: trans.__('GiB'),
        title: trans.__('By memory: the smallest part of a GPU that has it')
      };
    },

    /** Of a notice, what the script gets: the empty one is the pool's way. */
    noticeChoices(): { value: NoticeSignal | ''; label: string }[] {
      return [
        { value: '', label: trans.__('what the pool sets (default)') },
        { value: 'SIGUSR1', label: trans.__('SIGUSR1, so that it can save') },
        { value: 'none', label: trans.__('no signal before SIGTERM') }
      ];
    },

    launcherChoices(
      { workers, launcher }: ITrainForm,
      proposal: IFilesPreview['proposal'] | null,
      known: readonly string[]
    ): { value: string; label: string }[] {
      const proposed = proposal?.launcher;
      const others = new Set([...known, launcher]);
      others.delete(AUTO);
      others.delete(PLAIN);
      const plain = { value: PLAIN, label: trans.__('Plain: as they are') };
      // One worker gets no launcher that it was not given.
      const auto =
        workers < 2
          ? trans.__('Plain: one process')
          : proposed === undefined
            ? trans.__('As the script proposes')
            : trans.__('%1 (proposed)', proposed);
      return [
        { value: AUTO, label: auto },
        ...(workers > 1 || launcher === PLAIN ? [plain] : []),
        ...[...others].map(name => ({ value: name, label: name }))
      ];
    },

    proposedBecause({ launcher, why }: IFilesPreview['proposal']): string {
      return trans.__('%1, as %2.', launcher, why);
    },

    publishedBy(name: string): string {
      return trans.__('Published by %1.', name);
    },

    setsVariables(): string {
      return trans.__('It sets for the job:');
    },

    oneLine(): string {
      return trans.__('It counts on one line in the script:');
    },

    /** What is wrong with a name, a module or a price that is typed; null where nothing is. */
    wrongWord(field: string, form: ITrainForm): string | null {
      if (field === 'name' && form.name && !NAME.test(form.name)) {
        return trans.__(
          'A name has small letters, digits and dashes, 50 at most, and no dash at its ends.'
        );
      }
      if (field === 'maxPrice' && Number(form.maxPrice) === Infinity) {
        return this.mistake({ field }, form);
      }
      const module = form.module.trim();
      return field === 'module' && module && !MODULE.test(module)
        ? trans.__(
            'A module is written with dots and without .py, as in examples.train.'
          )
        : null;
    },

    nameLikeThis(): string {
      return trans.__(
        'Name the profile with small letters, digits and dashes.'
      );
    },

    chooseTeam(): string {
      return trans.__('Choose a team that you lead, above.');
    },

    published(name: string, team: string): string {
      return trans.__('%1 is a profile of %2 now.', name, team);
    },

    unpublished(name: string, team: string): string {
      return trans.__(
        '%1 is no profile of %2 any more. Its jobs stay.',
        name,
        team
      );
    },

    signalEndsIt(): string {
      return trans.__('SIGUSR1 ends a script that does not handle it.');
    },

    exitChoices(): { value: ExitMeaning; label: string }[] {
      return [
        { value: 'preempted', label: trans.__('goes on later (default)') },
        { value: 'success', label: trans.__('has succeeded') }
      ];
    },

    mistake({ field, line }: IMistake, form: ITrainForm): string {
      if (field === 'arguments') {
        return trans.__('Close every quotation mark.');
      }
      if (field === 'maxPrice') {
        return trans.__('A price is a number, such as 1.50.');
      }
      if (field === 'secrets') {
        return trans.__(
          '“%1” is no secret’s name: write VARIABLE=name, never a value.',
          line
        );
      }
      if (field === 'variables') {
        return trans.__('“%1” is no variable: write NAME=value.', line);
      }
      const words: [string, number, number] = [
        this.number(field),
        ...range(field, form)
      ];
      return isWhole(field)
        ? trans.__('%1: a whole number from %2 to %3.', ...words)
        : trans.__('%1: a number from %2 to %3.', ...words);
    },

    runsModule(module: string, folder: string): string {
      return folder
        ? trans.__('python -m %1, with the files of %2.', module, folder)
        : trans.__('python -m %1, with the files of this server.', module);
    },

    onlyIn(pool: string): string {
      return trans.__('Only in pool %1, as the plan says.', pool);
    },

    taken(form: ITrainForm): string {
      const limit =
        form.maxRunS === null
          ? trans.__('the team’s time limit')
          : trans.__('time limit %1', duration(form.maxRunS * 1000));
      return trans.__(
        'In the form now: launcher %1, %2.',
        form.launcher,
        limit
      );
    },

    advised(gpus: number, pool: string, holdClass: string): string {
      const words: [number, string] = [gpus, pool];
      const plan = trans._n('%1 GPU of %2', '%1 GPUs of %2', ...words);
      return (
        {
          guaranteed: trans.__('%1, guaranteed', plan),
          'over-quota': trans.__('%1, borrowed', plan)
        }[holdClass] ?? plan
      );
    },

    whyNot(gpus: number, text: string): string {
      return trans.__('Why not %1: %2', gpus, text);
    },

    looked(layouts: number): string {
      return trans.__('%1 layouts were looked at.', count(layouts));
    },

    gradeMeans(grade: string): string {
      return (
        {
          A: trans.__('Grade A: rests on runs like it'),
          B: trans.__('Grade B: rests on measured parts or few runs'),
          C: trans.__('Grade C: rests on formulas alone')
        }[grade] ?? trans.__('Grade %1', grade)
      );
    },

    sameAs(job: string): string {
      return trans.__('The same as %1', job);
    },

    files(count: number, sizeBytes: number): string {
      return trans._n('%1 file, %2', '%1 files, %2', count, bytes(sizeBytes));
    },

    environment(name: string, python: string): string {
      return python ? trans.__('%1 (Python %2)', name, python) : name;
    },

    /** By its path, as the server names it: `.venv` says nothing. */
    environmentAt(path: string): string {
      const [last = path, above] = path.split('/').filter(Boolean).reverse();
      return above && /^\.?v?env$/.test(last) ? above : last;
    },

    defaultEnvironment(image: string): string {
      const [name, digest] = image.split('@sha256:');
      return digest
        ? trans.__(
            'image %1, the one of this notebook',
            `${name}@sha256:${digest.slice(0, 12)}…`
          )
        : trans.__('The default');
    },

    environmentLabel(form: ITrainForm, isKnown: boolean): string {
      if (form.environment !== '' || !isKnown) {
        return trans.__('Environment');
      }
      return form.source?.kind === 'file' && form.source.path.endsWith('.ipynb')
        ? trans.__('Environment, this kernel’s own')
        : trans.__('Environment, the hub’s own');
    },

    leftBehind(paths: readonly string[]): string {
      const shown = paths.slice(0, 3).join(', ');
      return paths.length > 3
        ? trans.__('Stays here: %1 and %2 more', shown, paths.length - 3)
        : trans.__('Stays here: %1', shown);
    },

    leftOutChoices(): { value: string; label: string }[] {
      return [
        { value: '', label: trans.__('Choose…') },
        { value: 'link', label: trans.__('Link them from my home') },
        { value: 'without', label: trans.__('Go without them') }
      ];
    },

    chooseLeftOut(): string {
      return trans.__('Choose what becomes of the files that do not go along.');
    },

    linkedIsShared(): string {
      return trans.__(
        'The job reads them where they lie. What it writes into them changes your own files.'
      );
    },

    /** What the form chose by itself, and where it comes from. */
    ownChoices(form: ITrainForm, files: IFilesPreview | null): string {
      const limitS = EMPTY_FORM.maxRunS;
      const limit =
        form.maxRunS === limitS && limitS !== null
          ? trans.__(
              'It may run for %1 and then ends, finished or not: choose another time limit if it needs longer.',
              duration(limitS * 1000)
            )
          : '';
      const below = form.source?.kind === 'file' ? files?.results_to : null;
      const results = below
        ? trans.__(
            'Results come back to %1, beside the file.',
            below === '.' ? 'results/' : `${below}/results/`
          )
        : '';
      return `${limit} ${results}`.trim();
    },

    nextTimes(times: readonly string[]): string {
      return trans.__('Next: %1', times.join(', '));
    },

    /** What a run of a schedule is, where nothing else is said. */
    ofRuns({ source }: ITrainForm): string {
      return source?.kind === 'job'
        ? trans.__(
            'Each run takes the files that %1 had. It is last in line, on borrowed GPUs unless your team’s policy says otherwise.',
            source.job.name
          )
        : trans.__(
            'Each run takes the files as they are now. It is last in line, on borrowed GPUs unless your team’s policy says otherwise.'
          );
    },

    /** What a look at data costs, where one is asked for; else what may be written. */
    ofTriggers({ data }: ITriggerDraft): string {
      return data.trim()
        ? trans.__(
            'Data are looked at every 5 minutes by a small job of yours without a GPU. What is there at the first look starts nothing.'
          )
        : trans.__(
            'Leave the times empty to start by these alone. Data are a file, a folder or an https address; a metric is posted with gpucommons schedule metric.'
          );
    },

    dataGoAlong(): string {
      return trans.__(
        'These data go along as they are now, and each run would read that copy: give the script their whole path.'
      );
    },

    ofPromotion(): string {
      return trans.__(
        'What each run tells of it last is compared with the promoted model’s. The results of the promoted one stay.'
      );
    },

    ofPrice(): string {
      return trans.__(
        'In the currency of the pools. A pool without a price keeps no job from it.'
      );
    },

    wrongTrigger(field: WrongTrigger, draft: ITriggerDraft): string {
      const isNamed = draft.metric.trim() !== '' && field !== 'below';
      if (field === 'data') {
        return trans.__(
          'Data are a file, a folder, or an address that begins with https://.'
        );
      }
      if (field === 'after') {
        return trans.__('Name a job of yours, as in clean.');
      }
      return field === 'promote' || isNamed
        ? trans.__('A metric’s name has letters, digits, spaces and _./@-.')
        : trans.__(
            'Write a metric and the number that it falls below, or neither.'
          );
    },

    timesFirst(): string {
      return trans.__('Write times that the calendar has.');
    },

    zoneFirst(): string {
      return trans.__('Name a time zone, as in Europe/Berlin.');
    },

    savedIsLost(step: string): string {
      return trans.__(
        'Starts from the beginning: %1, saved before, is not used.',
        step
      );
    }
  };
}
