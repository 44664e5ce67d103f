/** From the sweep's part of *Train* to what the server takes. Pure. */
import { type ITrainForm, jobRequest, submission } from './request';
import type { IJobRequest } from '../server/types';
import type { TrainModel } from './train';

export type Scale = 'even' | 'log' | 'choice';

/** One line of the search space, as it is typed. */
export interface IParameter {
  name: string;
  /** `0.0001 to 0.1`, or `32, 64, 128`. */
  values: string;
  scale: Scale;
}

export type Sampler = 'tpe' | 'random' | 'grid';

export interface ISweepDraft {
  isSwept: boolean;
  parameters: IParameter[];
  metric: string;
  isHighest: boolean;
  trials: string;
  gpuHours: string;
  sampler: Sampler;
  atOnce: string;
  pauses: boolean;
  firstStep: string;
  lastStep: string;
}

export const EMPTY_DRAFT: ISweepDraft = {
  isSwept: false,
  parameters: [{ name: '', values: '', scale: 'log' }],
  metric: '',
  isHighest: true,
  trials: '40',
  gpuHours: '',
  sampler: 'tpe',
  atOnce: '8',
  pauses: false,
  firstStep: '5',
  lastStep: '45'
};

/** One in so many goes on at a rung, as the server has it where nothing else is said. */
const FACTOR = 3;

/** What cannot be sent as it is typed: a field, or a line of the search space. */
export interface ISweepMistake {
  field:
    | 'nothing'
    | 'name'
    | 'twice'
    | 'range'
    | 'order'
    | 'positive'
    | 'choices'
    | 'metric'
    | 'trials'
    | 'gpuHours'
    | 'atOnce'
    | 'steps';
  word: string;
}

type Space = Record<string, unknown>;

const NAME = /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/;
const RANGE = /^(\S+)\s+to\s+(\S+?)(?:\s+step\s+(\S+))?$/i;

/** The name as the script's arguments have it, without its dashes. */
export function plainName(name: string): string {
  return name.trim().replace(/^--?/, '');
}

/** The search space, or the first mistake in it. */
export function spaceOf(
  parameters: readonly IParameter[]
): Space | ISweepMistake {
  const space: Space = {};
  const written = parameters.filter(
    each => each.name.trim() !== '' || each.values.trim() !== ''
  );
  if (written.length === 0) {
    return { field: 'nothing', word: '' };
  }
  for (const each of written) {
    const name = plainName(each.name);
    if (!NAME.test(name)) {
      return { field: 'name', word: each.name.trim() || each.values.trim() };
    }
    if (name in space) {
      return { field: 'twice', word: name };
    }
    const value = each.scale === 'choice' ? choices(each) : range(each);
    if (typeof value === 'string') {
      return { field: value, word: name };
    }
    space[name] = value;
  }
  return space;
}

function choices({ values }: IParameter): unknown[] | 'choices' {
  const words = values
    .split(',')
    .map(each => each.trim())
    .filter(each => each !== '');
  return words.length === 0 ? 'choices' : words.map(valueOf);
}

/** As the script's parser would read it. */
function valueOf(word: string): string | number | boolean {
  if (word === 'true' || word === 'false') {
    return word === 'true';
  }
  const number = Number(word);
  return Number.isFinite(number) ? number : word;
}

function range({
  values,
  scale
}: IParameter): object | 'range' | 'order' | 'positive' {
  const match = RANGE.exec(values.trim());
  const [low, high] = [Number(match?.[1]), Number(match?.[2])];
  const step = match?.[3] === undefined ? null : Number(match[3]);
  if (
    !match ||
    !Number.isFinite(low) ||
    !Number.isFinite(high) ||
    (step !== null && !(step > 0))
  ) {
    return 'range';
  }
  if (low >= high) {
    return 'order';
  }
  // JSON knows no 0.0: what is written with a point is any number.
  const type =
    [low, high, step ?? 1].every(Number.isInteger) && values.includes('.')
      ? { type: 'float' }
      : {};
  if (scale === 'log') {
    return low > 0 && step === null
      ? { low, high, log: true, ...type }
      : 'positive';
  }
  return { low, high, ...(step === null ? {} : { step }), ...type };
}

/** Names of ranges of whole numbers without a step, of which somebody may mean any number between. */
export function wholeRanges(parameters: readonly IParameter[]): IParameter[] {
  return parameters
    .filter(each => each.scale !== 'choice')
    .filter(each => {
      const found = range(each);
      return (
        typeof found !== 'string' &&
        !('step' in found) &&
        Object.values(found).every(one => one === true || Number.isInteger(one))
      );
    })
    .map(each => ({ ...each, name: plainName(each.name) }))
    .filter(each => NAME.test(each.name));
}

export function isMistake(
  found: Space | ISweepMistake
): found is ISweepMistake {
  return typeof found['field'] === 'string' && 'word' in found;
}

/** Why it cannot be sent; null where it can. */
export function mistakeIn(draft: ISweepDraft): ISweepMistake | null {
  const space = spaceOf(draft.parameters);
  if (isMistake(space)) {
    return space;
  }
  const first = Number(draft.firstStep);
  const last = Number(draft.lastStep);
  const checks: [boolean, ISweepMistake['field'], string][] = [
    [draft.metric.trim() !== '', 'metric', ''],
    [isCount(draft.trials, 10_000), 'trials', draft.trials],
    [
      draft.gpuHours.trim() === '' ||
        (Number(draft.gpuHours) >= 0.001 &&
          Number(draft.gpuHours) <= 10_000_000),
      'gpuHours',
      draft.gpuHours
    ],
    [isCount(draft.atOnce, 256), 'atOnce', draft.atOnce],
    [
      !draft.pauses ||
        (isCount(draft.firstStep, 1e9) &&
          isCount(draft.lastStep, 1e9) &&
          first < last),
      'steps',
      ''
    ]
  ];
  const wrong = checks.find(([isRight]) => !isRight);
  return wrong ? { field: wrong[1], word: wrong[2] } : null;
}

function isCount(text: string, most: number): boolean {
  const value = Number(text);
  return Number.isInteger(value) && value >= 1 && value <= most;
}

/** Steps at which trials are compared. */
export function rungsOf(draft: ISweepDraft): number[] {
  const found: number[] = [];
  const last = Number(draft.lastStep);
  for (let step = Number(draft.firstStep); step > 0 && step < last;) {
    found.push(step);
    step *= FACTOR;
  }
  return found;
}

/** A trial's job: last in line, on borrowed GPUs; what is of one submit alone is left out. */
export function trialRequest(form: ITrainForm): IJobRequest {
  return {
    ...jobRequest(form),
    kind: 'retrain',
    priority: 'low',
    parent: undefined,
    after: undefined,
    not_before_ms: undefined
  };
}

/** What is sent. */
export function sweeping(form: ITrainForm, draft: ISweepDraft): object {
  const hours = draft.gpuHours.trim();
  const sweep = {
    space: spaceOf(draft.parameters),
    objective: {
      metric: draft.metric.trim(),
      direction: draft.isHighest ? 'maximize' : 'minimize'
    },
    budget: {
      trials: Number(draft.trials),
      ...(hours === '' ? {} : { gpu_hours: Number(hours) })
    },
    sampler: draft.sampler,
    max_parallel: Number(draft.atOnce),
    ...(draft.pauses
      ? {
          early_stopping: {
            first_step: Number(draft.firstStep),
            last_step: Number(draft.lastStep),
            factor: FACTOR
          }
        }
      : {})
  };
  if (form.source?.kind === 'file') {
    const file = submission(form, form.source.path);
    return {
      sweep,
      file: { ...file, request: { ...file.request, priority: 'low' } }
    };
  }
  return { sweep, job: trialRequest(form) };
}

const drafts = new WeakMap<TrainModel, ISweepDraft>();

/** What is typed of a sweep, beside the form of its job. */
export function draftOf(train: TrainModel): ISweepDraft {
  return drafts.get(train) ?? EMPTY_DRAFT;
}

export function keepDraft(
  train: TrainModel,
  change: Partial<ISweepDraft>
): void {
  drafts.set(train, { ...draftOf(train), ...change });
  train.changed.emit();
}
