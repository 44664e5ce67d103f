/** What of the form belongs to what it runs, and changes with it. */
import { EMPTY_FORM, type ITrainForm, type Source } from './request';
import { leaving } from './profile';

/** Fields of the form that mean something for one file alone. */
export const NOTHING_OF_A_FILE = {
  name: '',
  functionName: '',
  arguments: '',
  environment: '',
  leftOut: '',
  pool: '',
  plan: ''
} as const;

/** What was written for this form's file, to be there again with the file. */
export function writtenForFile(form: ITrainForm): Partial<ITrainForm> {
  const own = { ...form, ...leaving(form) };
  const { name, functionName, environment, leftOut } = own;
  return { name, functionName, environment, leftOut, arguments: own.arguments };
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
    source
  };
}
