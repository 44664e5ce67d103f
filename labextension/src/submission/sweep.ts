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
  /** Of the search space, from 0; undefined = of a field, or of the space as a whole. */
  line?: number;
}

type Space = Record<string, unknown>;

const NAME = /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/;
const RANGE = /^(\S+)\s+to\s+(\S+?)(?:\s+step\s+(\S+))?$/i;

/** The name as the script's arguments have it, without its dashes. */
export function plainName(name: string): string {
  return name.trim().replace(/^--?/, '');
}

/** A parameter of the search space. */
interface IDrawn {
  name: string;
  value: unknown;
}

/** Each line that is written: what it says, or what is wrong with it. */
function linesOf(
  parameters: readonly IParameter[]
): (IDrawn | ISweepMistake)[] {
  const known = new Set<string>();
  return parameters.flatMap((each, line) => {
    const isBlank = each.name.trim() === '' && each.values.trim() === '';
    return isBlank ? [] : [lineOf(each, line, known)];
  });
}

function lineOf(
  each: IParameter,
  line: number,
  known: Set<string>
): IDrawn | ISweepMistake {
  const name = plainName(each.name);
  if (!NAME.test(name)) {
    const word = each.name.trim() || each.values.trim();
    return { field: 'name', word, line };
  }
  if (known.has(name)) {
    return { field: 'twice', word: name, line };
  }
  known.add(name);
  const value = each.scale === 'choice' ? choices(each) : range(each);
  return typeof value === 'string'
    ? { field: value, word: name, line }
    : { name, value };
}

/** The search space, or the first mistake in it. */
export function spaceOf(
  parameters: readonly IParameter[]
): Space | ISweepMistake {
  const lines = linesOf(parameters);
  const space: Space = {};
  for (const each of lines) {
    if ('field' in each) {
      return each;
    }
    space[each.name] = each.value;
  }
  return lines.length > 0 ? space : { field: 'nothing', word: '' };
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

/** How many trials it may have: as many as were asked for, or as there are settings to try. */
export function mostTrials(draft: ISweepDraft): number {
  const space = spaceOf(draft.parameters);
  const settings = isMistake(space)
    ? Infinity
    : Object.values(space).reduce((all: number, one) => all * pointsOf(one), 1);
  return Math.min(Number(draft.trials), settings);
}

interface IRange {
  low: number;
  high: number;
  step?: number;
  type?: string;
}

/** How many values a parameter may have. */
function pointsOf(value: unknown): number {
  if (Array.isArray(value)) {
    return new Set(value).size;
  }
  const { low, high, step, type } = value as IRange;
  const isWhole = type === undefined && [low, high].every(Number.isInteger);
  return step === undefined && !isWhole
    ? Infinity
    : Math.floor((high - low) / (step ?? 1) + 1e-9) + 1;
}

export function isMistake(
  found: Space | ISweepMistake
): found is ISweepMistake {
  return typeof found['field'] === 'string' && 'word' in found;
}

/** Why it cannot be sent, the first reason before others; empty where it can. */
export function mistakesIn(draft: ISweepDraft): ISweepMistake[] {
  const lines = linesOf(draft.parameters);
  const first = Number(draft.firstStep);
  const last = Number(draft.lastStep);
  const checks: [boolean, ISweepMistake['field'], string][] = [
    [lines.length > 0, 'nothing', ''],
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
  return [
    ...lines.flatMap(each => ('field' in each ? [each] : [])),
    ...checks
      .filter(([isRight]) => !isRight)
      .map(([, field, word]) => ({ field, word }))
  ];
}

/** The first of them; null where it can be sent. */
export function mistakeIn(draft: ISweepDraft): ISweepMistake | null {
  return mistakesIn(draft)[0] ?? null;
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
