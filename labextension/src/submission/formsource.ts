/** What of the form belongs to what it runs, and changes with it. */
import { EMPTY_FORM, type ITrainForm, type Source } from './request';

/** Fields of the form that mean something for one file alone. */
export const NOTHING_OF_A_FILE = {
  name: '',
  functionName: '',
  arguments: '',
  module: '',
  environment: '',
  leftOut: '',
  pool: '',
  plan: ''
} as const;

/** What was written for this form's file, to be there again with the file. */
export function writtenForFile(form: ITrainForm): Partial<ITrainForm> {
  const { name, functionName, leftOut, module } = form;
  const own = {
    name,
    functionName,
    leftOut,
    module,
    arguments: form.arguments
  };
  return { ...own, environment: ownEnvironment(form) };
}

/** What a file runs in by itself, and not what a profile put there. */
function ownEnvironment({ environment, profile }: ITrainForm): string {
  // Not by `leaving`: profiles belong to a page that is loaded later, and Lab's start has to stay small.
  const isOfProfile = environment === profile?.changed.environment;
  return isOfProfile ? (profile.before.environment ?? '') : environment;
}

/** The form for another file or job, with what was written for it before. */
export function withSource(
  form: ITrainForm,
  source: Source | null,
  written: Partial<ITrainForm>
): ITrainForm {
  // Of a job run again nothing is meant for another file; of another file, what is its own is not.
  const environment = form.profile?.environment ?? '';
  const kept =
    form.source?.kind === 'job'
      ? { ...EMPTY_FORM, team: form.team }
      : { ...form, ...NOTHING_OF_A_FILE, environment };
  return {
    ...kept,
    ...written,
    // What the file has none of its own of, the profile says.
    environment: written.environment || kept.environment,
    profile: withOwn(kept.profile, written.environment ?? ''),
    source
  };
}

/** The profile, which gives this file's own environment back and not the one of the file before. */
function withOwn(
  profile: ITrainForm['profile'],
  environment: string
): ITrainForm['profile'] {
  return profile && 'environment' in profile.changed
    ? { ...profile, before: { ...profile.before, environment } }
    : profile;
}
