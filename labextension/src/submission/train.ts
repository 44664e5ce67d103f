/** State of *Train*: the form, its live quota line, the files that would go along. No DOM. */
import { UUID } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';

import { type Api, isRefusal, told } from '../server/api';
import {
  AUTO,
  EMPTY_FORM,
  formOfJob,
  IMistake,
  isLaunched,
  ITrainForm,
  jobRequest,
  mistakesIn,
  NumberName,
  PLAIN,
  sized,
  Source,
  submission,
  taken,
  Typed
} from './request';
import type { ICandidate } from './candidate';
import { withSource, writtenForFile } from './formsource';
import type { IEnvironments } from '../server/jobtypes';
import type { IAdvice, IPlanQuestion } from '../server/plans';
import { IFilesPreview, IJob, IQuote } from '../server/types';

/** The quota line may follow the form at most this late. */
const DEBOUNCE_MS = 300;

/** Places of the form that the focus is sent to. */
export type Place = 'first' | 'more' | 'advice' | 'submit' | 'workers';

export class TrainModel {
  constructor(
    readonly api: Api,
    /** Without a scheduler there is nobody to ask. */
    private readonly _canAsk: () => boolean
  ) {}

  readonly changed = new Signal<this, void>(this);
  form: Readonly<ITrainForm> = EMPTY_FORM;
  /** What a trial has filled in and a form still holds, as it was before the trial. */
  beforeTrial: ((form: ITrainForm) => Partial<ITrainForm>) | null = null;
  /** Of number fields what was typed there and cannot be taken. */
  typed: Readonly<Typed> = {};

  candidates: readonly ICandidate[] = [];
  quote: IQuote | null = null;
  files: IFilesPreview | null = null;
  filesProblem: string | null = null;
  environments: IEnvironments | null = null;
  isBusy = false;
  /** The form is another question than the one that was answered last: what was said is no answer. */
  isAsking = false;
  isExpanded = false;
  /** Where the focus should go as soon as the form is drawn. */
  wanted: Place | null = null;

  /** A refusal in the scheduler's words: of the submit until the form changes, or of the quote. */
  get problem(): string | null {
    return this._refusal ?? this._quoteProblem;
  }

  /** Why a submit of this very form would be refused; null where it would not, or nobody can say. */
  refusal: string | null = null;

  get candidate(): ICandidate | null {
    const source = this.form.source;
    return source?.kind === 'file'
      ? (this.candidates.find(each => each.path === source.path) ?? null)
      : null;
  }

  /** The open documents changed; a form without a source takes the first, the current one. */
  setCandidates(candidates: readonly ICandidate[]): void {
    this.candidates = candidates;
    const source = this.form.source;
    const gone =
      source === null ||
      (source.kind === 'file' &&
        !this._isChosen &&
        !this._isEdited &&
        candidates[0] !== undefined &&
        candidates[0].path !== source.path);
    if (gone) {
      const first = candidates[0];
      this._setSource(first ? { kind: 'file', path: first.path } : null);
    }
    this.changed.emit();
  }

  /** The reader chose a file: it stays, whatever tab is in front. */
  choose(path: string, functionName = ''): void {
    this._isChosen = true;
    this._setSource({ kind: 'file', path });
    this.update({ functionName });
  }

  /** Take back what a trial has filled in. */
  endTrial(): void {
    this.form = { ...this.form, ...this.beforeTrial?.(this.form) };
    this.beforeTrial = null;
  }

  /** Ask for a job once more. */
  prefill(job: IJob): void {
    this.beforeTrial = null;
    this._isChosen = true;
    this.form = formOfJob(job);
    this.typed = {};
    this.files = null;
    this.filesProblem = null;
    this._askAnew();
  }

  update(change: Partial<ITrainForm>): void {
    this.form = { ...this.form, ...change };
    this._isEdited = true;
    this._askAnew();
  }

  /** Take what a profile says; where it runs something by itself, that is what runs. */
  start(change: Partial<ITrainForm>): void {
    const { profile } = change;
    const isOwn = this.form.source?.kind === 'profile';
    if (profile?.command) {
      this._setSource({ kind: 'profile', key: profile.key });
      this._isChosen = true;
    } else if (isOwn) {
      this._isChosen = false;
      const first = this.candidates[0];
      this._setSource(first ? { kind: 'file', path: first.path } : null);
    }
    this.typed = {};
    this.update(change);
  }

  /** Into a number field: it is taken once it is one that may stand there. */
  type(name: NumberName, text: string): void {
    Object.assign(this, taken(this.form, { ...this.typed, [name]: text }));
    this._isEdited = true;
    this._askAnew();
  }

  /** So many GPUs, or, where that is null, GPUs by their memory. */
  resize(milliGpu: number | null): void {
    Object.assign(this, sized(this.form, this.typed, milliGpu));
    this._isEdited = true;
    this._askAnew();
  }

  advise = (question: IPlanQuestion): Promise<IAdvice> =>
    this.api.request('POST', ['advise'], question);

  /** Bring the reader to this place of the form, now or once it is shown. */
  goTo(place: Place): void {
    this.wanted = place;
    this.changed.emit();
  }

  setExpanded(expanded: boolean): void {
    this.isExpanded = expanded;
    this.changed.emit();
  }

  /** Large files stay behind, and nobody has said what becomes of them. */
  get mustChoose(): boolean {
    return this.form.leftOut === '' && this.leftBehind.length > 0;
  }

  get leftBehind(): string[] {
    const isFile = this.form.source?.kind === 'file';
    const excluded = (isFile && this.files?.excluded) || [];
    return excluded.filter(each => each.linkable).map(each => each.path);
  }

  /** What several workers need to find each other, where they do not get it. */
  get advice(): string[] {
    const { source, workers } = this.form;
    const advice = (source?.kind === 'file' && this.files?.advice) || [];
    const own = advice
      .filter(each => workers > 1 && !each.launchers.includes(this.launcher))
      .map(each => each.text);
    return [...new Set([...own, ...(this.quote?.warnings ?? [])])];
  }

  /** The launcher that several workers get. */
  get launcher(): string {
    const { launcher } = this.form;
    return launcher === AUTO ? (this.proposal?.launcher ?? PLAIN) : launcher;
  }

  /** What the file itself proposes. */
  get proposal(): IFilesPreview['proposal'] | null {
    const isFile = this.form.source?.kind === 'file';
    return (isFile && this.files?.proposal) || null;
  }

  async loadEnvironments(): Promise<void> {
    try {
      this.environments = await this.api.environments();
    } catch {
      // The file's own can be had all the same.
    }
    this.changed.emit();
  }

  /** Ask for the quota line anew, soon: several changes in a row make one question. */
  refreshQuote(): void {
    window.clearTimeout(this._timer);
    const { mistakes, form } = this;
    if (form.source === null || mistakes.length > 0 || !this._canAsk()) {
      this.quote = this.refusal = this._quoteProblem = null;
      this.isAsking = false;
      if (this._key !== null && !this._canAsk()) {
        // The page says that the scheduler is away; when it is back, that is over.
        this._refusal = null;
      }
      return;
    }
    this._timer = window.setTimeout(() => {
      void this._askQuote();
    }, DEBOUNCE_MS);
  }

  /** The reader comes back to a form that was refused. */
  lookAgain(): void {
    if (this.refusal !== null) {
      this.refreshQuote();
    }
  }

  async loadFiles(): Promise<void> {
    const { source, environment, module } = this.form;
    if (source?.kind !== 'file') {
      return;
    }
    const isCurrent = () => {
      const now = this.form.source;
      return (
        now?.kind === 'file' &&
        now.path === source.path &&
        this.form.module === module
      );
    };
    try {
      const files = await this.api.files(source.path, environment, module);
      if (isCurrent()) {
        this.files = files;
        this.filesProblem = null;
        this.refreshQuote();
      }
    } catch (error) {
      if (isCurrent()) {
        this.files = null;
        this.filesProblem = told(error);
      }
    }
    this.changed.emit();
  }

  /** Why the form cannot be sent as it is written. */
  get mistakes(): IMistake[] {
    return mistakesIn(this.form, this.typed);
  }

  /** Submit; the new job, or null when it was refused (see `problem`). */
  submit(): Promise<IJob | null> {
    return this.send((form, key) =>
      form.source?.kind === 'file'
        ? this.api.submitFile(submission(form, form.source.path), key)
        : this.api.submit(jobRequest(form), key)
    );
  }

  /** Send the form by this call, which the same key makes harmless when repeated. */
  async send<T>(
    call: (form: ITrainForm, key: string) => Promise<T>
  ): Promise<T | null> {
    const form = this.form;
    if (
      form.source === null ||
      this.isBusy ||
      this.mustChoose ||
      this.mistakes.length > 0
    ) {
      return null;
    }
    this.isBusy = true;
    this._refusal = null;
    this.changed.emit();
    try {
      if (form.source.kind === 'file' && this.candidate?.isDirty) {
        await this.candidate.save();
      }
      const answer = await call(form, (this._key ??= UUID.uuid4()));
      this._key = null;
      this._isEdited = false;
      // A plan is for one job: so is the pool that it named.
      const next = form.plan ? { plan: '', pool: '' } : {};
      this.form = { ...form, ...next, name: '', isScheduled: false };
      this.endTrial();
      if (form.source.kind === 'job') {
        this._isChosen = false;
        this.form = { ...EMPTY_FORM, team: form.team };
        this.setCandidates(this.candidates);
      }
      return answer;
    } catch (error) {
      this._refusal = told(error);
      if (isRefusal(error)) {
        this._key = null;
      }
      return null;
    } finally {
      this.isBusy = false;
      this.changed.emit();
      this.refreshQuote();
    }
  }

  private async _askQuote(): Promise<void> {
    const asked = ++this._asked;
    try {
      const quote = await this.api.quote(jobRequest(this._settled));
      if (asked === this._asked) {
        this.quote = quote;
        this._quoteProblem = this.refusal = null;
        this.isAsking = false;
      }
    } catch (error) {
      if (asked === this._asked) {
        this.quote = null;
        this.isAsking = false;
        this._quoteProblem = told(error);
        this.refusal = isRefusal(error) ? this._quoteProblem : null;
      }
    }
    this.changed.emit();
  }

  /** The form with what it runs in, and what joins its workers, where nothing else is chosen. */
  private get _settled(): ITrainForm {
    const form = isLaunched(this.form)
      ? { ...this.form, launcher: this.launcher }
      : this.form;
    const isOwn =
      form.environment === '' &&
      form.source?.kind === 'file' &&
      this.environments?.kind === 'folder';
    const own = (isOwn && this.files?.environment) || '';
    return own ? { ...form, environment: own } : form;
  }

  private _setSource(source: Source | null): void {
    this.endTrial();
    const old = this.form.source;
    if (old?.kind === 'file') {
      this._written.set(old.path, writtenForFile(this.form));
    }
    const written =
      source?.kind === 'file' ? this._written.get(source.path) : undefined;
    this.form = withSource(this.form, source, written ?? {});
    this._isEdited = false;
    this.typed = {};
    this.files = null;
    this.filesProblem = null;
    this._askAnew();
  }

  /** What the form asks is another question now: what was said of the last one is stale. */
  private _askAnew(): void {
    this._refusal = this._key = null;
    this.isAsking = true;
    // An answer that is on its way is one to another question.
    this._asked += 1;
    this.refreshQuote();
    this.changed.emit();
  }

  private _refusal: string | null = null;
  private _quoteProblem: string | null = null;
  /** Of the submit under way, or of one whose answer was lost: repeating it makes no second job. */
  private _key: string | null = null;
  private _isChosen = false;
  /** Somebody fills the form in: no other tab that comes to the front takes it away from them. */
  private _isEdited = false;
  /** By file, what is its own in the form. */
  private readonly _written = new Map<string, Partial<ITrainForm>>();
  private _timer = 0;
  private _asked = 0;
}
