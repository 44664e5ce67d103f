/** *Train*: what to run, on how much, for how long; what the quota says to it; submit. */
import * as React from 'react';

import { Fragment, h } from '../components/h';

import { baseName, duration, gpus } from '../text/format';
import { CommandIDs } from '../lab/ids';
import { isFinal, stepText } from '../model/jobs';
import {
  isByMemory,
  ITrainForm,
  offeredSizes,
  scheduling
} from '../submission/request';
import type { Connection } from '../server/api';
import { putSchedule } from '../server/schedules';
import type { ITeam, LeftOut } from '../server/tokens';
import type { TrainModel } from '../submission/train';
import {
  usePanel,
  useSignal,
  useTopics,
  useWords
} from '../components/context';
import { TrainAdvice } from './advice';
import { IOption, NumberField, Segmented, SelectField } from './fields';
import { ActionButton, Callout } from '../components/parts';
import { QuotaLine } from './quotaline';
import { trainMessages, type TrainMessages } from './messages';
import { TrainMore } from './more';
import { useTimes, When } from './when';
import { Workers } from './workers';

const OTHER_FILE = 'other';
const NO_LIMIT = 'none';
const BY_MEMORY = 'memory';
const PLACES = { first: 'gc-what', submit: 'gc-submit' };

export function TrainForm(): React.JSX.Element {
  const { model, train, commands, trans } = usePanel();
  const msg = useWords(trainMessages);
  useSignal(train.changed);
  useTopics(model, ['status', 'teams']);
  const { form } = train;
  const [isAdvising, setAdvising] = React.useState(false);
  const times = useTimes();
  const { isScheduled } = form;
  const hindrance =
    whyNot(train, model.connection, msg) ??
    (isScheduled && !times?.next.length ? msg.timesFirst() : null);
  const node = useFocus(train);
  const { source } = form;
  const path = source?.kind === 'file' ? source.path : null;
  const saved = train.candidate?.savedMs;
  React.useEffect(() => {
    void train.loadFiles();
  }, [train, path, saved, form.environment]);
  React.useEffect(() => {
    void train.loadEnvironments();
  }, [train]);
  return (
    <form
      className="gc-Train"
      ref={node}
      // What was refused may be mended elsewhere by now: a secret, made in a terminal.
      onPointerEnter={() => {
        train.lookAgain();
      }}
      onFocus={() => {
        train.lookAgain();
      }}
      onSubmit={event => {
        event.preventDefault();
      }}
    >
      <WhatToRun />
      <Environment />
      <Workers />
      <Segmented
        label={
          form.workers > 1
            ? trans.__('GPUs of each of %1 workers', form.workers)
            : trans.__('GPUs')
        }
        value={isByMemory(form) ? BY_MEMORY : String(form.milliGpu)}
        options={[
          ...sizes(form, model.myTeams, msg),
          { value: BY_MEMORY, ...msg.byMemory() }
        ]}
        onChange={value => {
          train.resize(value === BY_MEMORY ? null : Number(value));
        }}
      />
      {form.gpuMemoryGib === null ? null : <NumberField field="gpuMemoryGib" />}
      {form.pool ? (
        <p className="gc-Hint">
          {msg.onlyIn(form.pool)}{' '}
          <button
            type="button"
            className="gc-Link"
            onClick={() => {
              train.update({ pool: '' });
            }}
          >
            {trans.__('Any pool')}
          </button>
        </p>
      ) : null}
      <SelectField
        id="gc-time"
        label={trans.__('Time limit')}
        value={form.maxRunS === null ? NO_LIMIT : String(form.maxRunS)}
        options={timeLimits(form.maxRunS, model.timeLimits, msg)}
        onChange={value => {
          train.update({ maxRunS: value === NO_LIMIT ? null : Number(value) });
        }}
      />
      <When times={times} />
      {train.isExpanded ? <TrainMore /> : null}
      <LeftBehind />
      <p className="gc-Muted gc-Hint">{msg.ownChoices(form, train.files)}</p>
      {train.advice.map(text => (
        <Callout key={text} tone="borrow">
          {text}
        </Callout>
      ))}
      <GoesOn form={form} msg={msg} />
      {isScheduled && train.problem === null ? null : (
        <QuotaLine train={train} />
      )}
      <div className="gc-Row gc-Buttons">
        <ActionButton
          id={PLACES.submit}
          isPrimary={train.problem === null}
          hindrance={hindrance}
          isBusy={train.isBusy}
          describedBy="gc-quote"
          onClick={() => {
            void (isScheduled ? schedule() : submit());
          }}
        >
          {train.isBusy
            ? trans.__('Submitting…')
            : train.problem === null || hindrance !== null
              ? isScheduled
                ? trans.__('Schedule')
                : trans.__('Submit')
              : // What was refused lies outside of the form: it may be mended by now.
                trans.__('Submit again')}
        </ActionButton>
        <ActionButton
          isExpanded={isAdvising}
          onClick={() => {
            setAdvising(!isAdvising);
          }}
        >
          {trans.__('Advise')}
        </ActionButton>
        <ActionButton
          isExpanded={train.isExpanded}
          onClick={() => {
            train.setExpanded(!train.isExpanded);
            if (train.isExpanded) {
              train.goTo('more');
            }
          }}
        >
          {train.isExpanded ? trans.__('Less') : trans.__('More…')}
        </ActionButton>
      </div>
      {isAdvising ? <TrainAdvice /> : null}
    </form>
  );

  async function schedule(): Promise<void> {
    const made = await train.send(sent =>
      putSchedule(train.api, scheduling(sent))
    );
    if (made !== null) {
      train.setExpanded(false);
      void commands.execute(CommandIDs.schedules, {
        wanted: `${made.owner}/${made.name}`
      });
    }
  }

  async function submit(): Promise<void> {
    const job = await train.submit();
    if (job !== null) {
      // What was asked for is done with.
      train.setExpanded(false);
      model.add(job);
      // Who meanwhile types elsewhere is not taken away from there: the row and a notice are enough.
      // A button that rests while it is sent may have lost the focus to nobody.
      const { activeElement, body } = document;
      if (activeElement === body || node.current?.contains(activeElement)) {
        void commands.execute(CommandIDs.openJob, { job: job.id });
      }
    }
  }
}

/** Why the form cannot be sent as it is; null where it can. */
function whyNot(
  train: TrainModel,
  connection: Connection,
  msg: TrainMessages
): string | null {
  const away = msg.outOfReach(connection);
  if (away !== null || train.form.source === null) {
    return away ?? msg.openFirst();
  }
  if (train.mustChoose) {
    return msg.chooseLeftOut();
  }
  const [mistake] = train.mistakes;
  return mistake ? msg.mistake(mistake, train.form) : train.refusal;
}

/** Sends the focus where it was asked to, and keeps a button in sight that lines push down. */
function useFocus(train: TrainModel): React.RefObject<HTMLFormElement> {
  const node = React.useRef<HTMLFormElement>(null);
  React.useEffect(() => {
    const { wanted } = train;
    const field =
      wanted === 'more'
        ? node.current?.querySelector<HTMLElement>('.gc-More :is(input,select)')
        : wanted && document.getElementById(PLACES[wanted]);
    if (field) {
      train.wanted = null;
      field.focus();
    }
    const { activeElement } = document;
    if (activeElement?.id === PLACES.submit) {
      activeElement.scrollIntoView({ block: 'nearest' });
    }
  });
  return node;
}

/** What becomes of the progress that the job in question has saved. */
function GoesOn(props: {
  form: ITrainForm;
  msg: TrainMessages;
}): React.JSX.Element | null {
  const { form, msg } = props;
  const job = form.source?.kind === 'job' ? form.source.job : null;
  if (!job?.checkpoint || isFinal(job)) {
    return null;
  }
  return (
    <p className="gc-Hint" role="status">
      {msg.savedIsLost(stepText(job, job.checkpoint.step, msg))}
    </p>
  );
}

function WhatToRun(): React.JSX.Element {
  const { train, commands, trans } = usePanel();
  const msg = useWords(trainMessages);
  const { source, functionName } = train.form;
  const functions = train.candidate?.functions ?? [];
  const options: IOption[] = train.candidates.map((candidate, index) => ({
    value: candidate.path,
    label:
      index > 0
        ? baseName(candidate.path)
        : msg.thisFile(candidate.path, candidate.savedMs)
  }));
  if (source?.kind === 'file' && !train.candidate) {
    options.unshift({ value: source.path, label: baseName(source.path) });
  }
  if (source?.kind === 'job') {
    options.unshift({ value: '', label: msg.sameAs(source.job.name) });
  }
  if (source === null) {
    options.unshift({
      value: '',
      label: msg.openFirst()
    });
  }
  options.push({ value: OTHER_FILE, label: trans.__('Another file…') });
  return (
    <>
      <SelectField
        id={PLACES.first}
        label={trans.__('What to run')}
        value={source?.kind === 'file' ? source.path : ''}
        options={options}
        onChange={value => {
          if (value === OTHER_FILE) {
            void commands.execute(CommandIDs.trainFile, { asks: true });
          } else if (value !== '') {
            train.choose(value);
          }
        }}
      />
      {train.candidate?.isDirty ? (
        <p className="gc-Muted gc-Hint">
          {trans.__('Unsaved changes are saved on submit.')}
        </p>
      ) : null}
      {functions.length > 0 ? (
        <SelectField
          id="gc-function"
          label={trans.__('Part of it')}
          value={functionName}
          options={[
            { value: '', label: trans.__('The whole notebook') },
            ...functions.map(name => ({
              value: name,
              label: `${name}(resume_dir)`
            }))
          ]}
          onChange={value => {
            train.update({ functionName: value });
          }}
        />
      ) : null}
    </>
  );
}

/** The Python that it runs with. */
function Environment(): React.JSX.Element | null {
  const { train } = usePanel();
  const msg = useWords(trainMessages);
  const { form, files, environments } = train;
  const known = environments?.environments ?? [];
  const image = environments?.default ?? '';
  const isFile = form.source?.kind === 'file';
  const own = isFile && environments?.kind === 'folder' ? files : null;
  if (form.source === null || (known.length === 0 && own === null && !image)) {
    return null;
  }
  const options: IOption[] = [
    {
      value: '',
      label: own?.environment_name ?? msg.defaultEnvironment(image)
    },
    ...known
      .filter(each => each.environment !== own?.environment)
      .map(each => ({
        value: each.environment,
        label: msg.environment(each.name, each.python)
      }))
  ];
  if (!options.some(each => each.value === form.environment)) {
    options.push({
      value: form.environment,
      label: baseName(form.environment)
    });
  }
  return (
    <SelectField
      id="gc-environment"
      label={msg.environmentLabel(form, own !== null)}
      value={form.environment}
      options={options}
      onChange={environment => {
        train.update({ environment });
      }}
    />
  );
}

/** Large files that do not go along: it is asked before they are missed. */
function LeftBehind(): React.JSX.Element | null {
  const { train } = usePanel();
  const msg = useWords(trainMessages);
  const left = train.leftBehind;
  return left.length === 0 ? null : (
    <>
      <SelectField
        id="gc-left"
        label={msg.leftBehind(left)}
        value={train.form.leftOut}
        options={msg.leftOutChoices()}
        onChange={leftOut => {
          train.update({ leftOut: leftOut as LeftOut | '' });
        }}
      />
      {train.form.leftOut === 'link' ? (
        <p className="gc-Hint">{msg.linkedIsShared()}</p>
      ) : null}
    </>
  );
}

function sizes(
  form: ITrainForm,
  teams: readonly ITeam[],
  msg: TrainMessages
): IOption[] {
  return offeredSizes(form.team, teams, form.milliGpu).map(size => ({
    value: String(size),
    label: size === 0 ? msg.trans.__('CPU') : gpus(size)
  }));
}

function timeLimits(
  chosen: number | null,
  offered: readonly (number | null)[],
  msg: TrainMessages
): IOption[] {
  const all = offered.includes(chosen) ? offered : [chosen, ...offered];
  return all.map(limit => ({
    value: limit === null ? NO_LIMIT : String(limit),
    label:
      limit === null ? msg.trans.__('The team’s limit') : duration(limit * 1000)
  }));
}
