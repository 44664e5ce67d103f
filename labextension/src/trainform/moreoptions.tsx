/** *More…* of *Train*: arguments, team, priority, secrets, and the files that go along. */
import { bytes } from '../text/format';
import { visible } from '../text/visible';
import type { ExitMeaning, NoticeSignal, Priority } from '../server/types';
import { usePanel, useWords } from '../components/context';
import { CheckField, NumberField, SelectField, TextField } from './fields';
import { Fragment, h } from '../components/h';
import { trainMessages } from './messages';

const SHOWN_FILES = 8;
/** A name, not a sentence: it stays as it is in every language. */
const SECRET_EXAMPLE = 'HF_TOKEN=hugging-face';
const ARGUMENTS_EXAMPLE = '--epochs 50';
const VARIABLE_EXAMPLE = 'BATCH_SIZE=64';
const MODULE_EXAMPLE = 'examples.train';

export function TrainMore(): React.JSX.Element {
  const { model, train, trans } = usePanel();
  const msg = useWords(trainMessages);
  const { form } = train;
  const isNotebook =
    form.source?.kind === 'file' && form.source.path.endsWith('.ipynb');
  const parameters = isNotebook ? train.files?.parameters : null;
  const takesWords = !isNotebook || parameters;
  const teams = model.whoami?.teams ?? [];
  return (
    <div className="gc-More">
      {form.source?.kind === 'file' && takesWords ? (
        <TextField
          field="arguments"
          label={
            parameters
              ? trans.__('Parameters: %1', parameters.join(', '))
              : trans.__('Arguments of the script')
          }
          placeholder={
            parameters ? `${parameters[0] ?? 'name'}=…` : ARGUMENTS_EXAMPLE
          }
        />
      ) : null}
      <Module />
      <div className="gc-Pair">
        <NumberField field="cpus" />
        <NumberField field="memoryGib" />
      </div>
      {teams.length > 1 ? (
        <SelectField
          id="gc-team"
          label={trans.__('Team')}
          value={form.team}
          options={[
            { value: '', label: trans.__('Choose…') },
            ...teams.map(team => ({ value: team, label: team }))
          ]}
          onChange={team => {
            train.update({ team });
          }}
        />
      ) : null}
      <TextField
        field="name"
        label={trans.__('Name')}
        placeholder={trans.__('from the file')}
      />
      <TextField
        field="maxPrice"
        label={trans.__('Pays at most, per GPU and hour')}
        placeholder={trans.__('any price')}
      />
      {form.maxPrice.trim() ? (
        <p className="gc-Muted gc-Hint">{msg.ofPrice()}</p>
      ) : null}
      <SelectField
        id="gc-priority"
        label={trans.__('Priority inside the team')}
        value={form.priority}
        options={[
          { value: 'low', label: trans.__('Low') },
          { value: 'normal', label: trans.__('Normal') },
          { value: 'high', label: trans.__('High') }
        ]}
        onChange={priority => {
          train.update({ priority: priority as Priority });
        }}
      />
      <TextField
        field="secrets"
        label={trans.__('Secrets, by name, one per line')}
        placeholder={SECRET_EXAMPLE}
        rows={2}
      />
      <TextField
        field="variables"
        label={trans.__('Variables, one per line')}
        placeholder={VARIABLE_EXAMPLE}
        rows={2}
      />
      {form.variables.trim() ? (
        <p className="gc-Muted gc-Hint">
          {trans.__(
            'Whoever may see the job reads them: passwords are secrets.'
          )}
        </p>
      ) : null}
      <CheckField
        field="overQuota"
        label={trans.__('May borrow GPUs over the team’s guarantee')}
      />
      <Stops />
      <Files />
    </div>
  );
}

/** A script that is part of a package runs as `python -m`, from the folder that the package is in. */
function Module(): React.JSX.Element | null {
  const { train, trans } = usePanel();
  const msg = useWords(trainMessages);
  const { source, module } = train.form;
  const { files } = train;
  if (source?.kind !== 'file' || !source.path.endsWith('.py')) {
    return null;
  }
  return (
    <>
      <TextField
        field="module"
        label={trans.__('As a module (python -m), in place of the file')}
        placeholder={MODULE_EXAMPLE}
      />
      {module.trim() && files?.folder != null ? (
        <p className="gc-Muted gc-Hint">
          {msg.runsModule(module.trim(), files.folder)}
        </p>
      ) : null}
    </>
  );
}

/** What the script gets when it is to leave, and what its end means then. */
function Stops(): React.JSX.Element {
  const { train, trans } = usePanel();
  const msg = useWords(trainMessages);
  const { noticeSignal, exitAfterSignal } = train.form;
  return (
    <>
      <SelectField
        id="gc-notice"
        label={trans.__('When a stop is announced, the script gets')}
        value={noticeSignal}
        options={msg.noticeChoices()}
        onChange={value => {
          train.update({ noticeSignal: value as NoticeSignal | '' });
        }}
      />
      {noticeSignal === 'SIGUSR1' ? (
        <p className="gc-Muted gc-Hint">{msg.signalEndsIt()}</p>
      ) : null}
      <SelectField
        id="gc-exit"
        label={trans.__('When it then exits with status 0, the job')}
        value={exitAfterSignal}
        options={msg.exitChoices()}
        onChange={value => {
          train.update({ exitAfterSignal: value as ExitMeaning });
        }}
      />
    </>
  );
}

/** A list of two columns below a title. */
function Pairs(props: {
  title: string;
  aside?: string;
  rows: [string, string][];
}): React.JSX.Element | null {
  return props.rows.length === 0 ? null : (
    <>
      <h3>
        {props.title}
        <span className="gc-Muted gc-Right">{props.aside}</span>
      </h3>
      <ul>
        {props.rows.map(([left, right]) => (
          <li key={left} className="gc-Row">
            <span className="gc-Path">{left}</span>
            <span className="gc-Muted gc-Right">{right}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

function Files(): React.JSX.Element | null {
  const { train, trans } = usePanel();
  const msg = useWords(trainMessages);
  const { files, filesProblem } = train;
  if (filesProblem !== null) {
    return <p className="gc-Error">{filesProblem}</p>;
  }
  if (files === null) {
    return null;
  }
  const more = files.files.length - SHOWN_FILES;
  const none = trans.__('none');
  return (
    <div className="gc-Files">
      <Pairs
        title={trans.__('Goes along')}
        aside={msg.files(files.files.length, files.size_bytes)}
        rows={files.files
          .slice(0, SHOWN_FILES)
          .map(file => [visible(file.path), bytes(file.size_bytes)])}
      />
      {more > 0 ? (
        <p className="gc-Muted">{trans.__('and %1 more', more)}</p>
      ) : null}
      <Pairs
        title={trans.__('Stays here')}
        rows={files.excluded.map(file => [visible(file.path), file.reason])}
      />
      <Pairs
        title={trans.__('Packages that differ in the job')}
        rows={files.packages.map(each => [
          each.name,
          `${each.here ?? none} → ${each.job ?? none}`
        ])}
      />
    </div>
  );
}
