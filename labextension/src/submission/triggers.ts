/** What starts a schedule beside the calendar: as *Train* has it typed, and as the server takes it. Pure. */
import type { IFilesPreview } from '../server/types';
import type { TrainModel } from './train';

export type On = 'ok' | 'any' | 'failed';

export interface ITriggerDraft {
  /** A file, a folder or an address. */
  data: string;
  /** The name of a job. */
  after: string;
  on: On;
  metric: string;
  below: string;
  /** The metric by which models are compared. */
  promote: string;
  isHighest: boolean;
}

export const NO_TRIGGERS: ITriggerDraft = {
  data: '',
  after: '',
  on: 'ok',
  metric: '',
  below: '',
  promote: '',
  isHighest: true
};

const drafts = new WeakMap<TrainModel, ITriggerDraft>();

export function triggersOf(train: TrainModel): ITriggerDraft {
  return drafts.get(train) ?? NO_TRIGGERS;
}

export function keepTriggers(
  train: TrainModel,
  some: Partial<ITriggerDraft>
): void {
  drafts.set(train, { ...triggersOf(train), ...some });
  train.changed.emit();
}

/** Whether any is typed. */
export function hasTriggers(draft: ITriggerDraft): boolean {
  return [draft.data, draft.after, draft.metric].some(each => each.trim());
}

/** A field that cannot be sent as it is. */
export type WrongTrigger = 'data' | 'after' | 'metric' | 'below' | 'promote';

/** As the server takes them. */
const METRIC = /^[A-Za-z0-9_./@ -]{1,100}$/;
const JOB = /^[a-z0-9][a-z0-9/-]{0,101}$/;
const ADDRESS = /^https?:\/\/\S+$/;

/** The first field that is missing or wrong; null where all can be sent. */
export function mistakeOf(draft: ITriggerDraft): WrongTrigger | null {
  const { data, after, metric, below, promote } = draft;
  if (/^\w+:\/\//.test(data.trim()) && !ADDRESS.test(data.trim())) {
    return 'data';
  }
  if (after.trim() && !JOB.test(after.trim())) {
    return 'after';
  }
  if (metric.trim() === '' ? below.trim() : !METRIC.test(metric.trim())) {
    return 'metric';
  }
  const hasValue = below.trim() !== '' && Number.isFinite(Number(below));
  if (metric.trim() && !hasValue) {
    return 'below';
  }
  return promote.trim() && !METRIC.test(promote.trim()) ? 'promote' : null;
}

/** By what models are compared, as the server takes it; undefined = not at all. */
export function promoteBody(draft: ITriggerDraft): object | undefined {
  const metric = draft.promote.trim();
  const direction = draft.isHighest ? 'maximize' : 'minimize';
  return metric === '' ? undefined : { metric, direction };
}

/** Whether these data are among the files of which the job takes a copy along. */
export function goAlong(
  { data }: ITriggerDraft,
  files: IFilesPreview | null,
  root: string
): boolean {
  const base = root.replace(/\/+$/, '');
  const asked = data.trim().replace(/\/+$/, '');
  const path = asked.startsWith(`${base}/`)
    ? asked.slice(base.length + 1)
    : asked;
  const folder = files?.folder ? `${files.folder}/` : '';
  return (
    path !== '' &&
    (files?.files ?? []).some(each =>
      `${folder}${each.path}/`.startsWith(`${path}/`)
    )
  );
}

/** As `PUT /v1/schedules` takes them; paths are those of this server's folder, unless they are whole. */
export function triggersBody(draft: ITriggerDraft, root: string): object[] {
  const found: object[] = [];
  const data = draft.data.trim();
  if (/^https?:\/\//.test(data)) {
    found.push({ data: { url: data } });
  } else if (data) {
    const isFull = data.startsWith('/') || data.startsWith('~/');
    const path = isFull ? data : `${root.replace(/\/+$/, '')}/${data}`;
    found.push({ data: { path } });
  }
  if (draft.after.trim()) {
    found.push({ after: { job: draft.after.trim(), on: draft.on } });
  }
  if (draft.metric.trim()) {
    const below = Number(draft.below);
    found.push({ metric: { name: draft.metric.trim(), below } });
  }
  return found;
}
