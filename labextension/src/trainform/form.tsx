/** *Train*: what to run, on how much, for how long; what the quota says to it; submit. */
import { PageConfig } from '@jupyterlab/coreutils';
import * as React from 'react';

import { Fragment, h } from '../components/h';

import { Together } from '../advice/togetherview';
import { CommandIDs } from '../lab/ids';
import { isFinal, stepText } from '../model/jobs';
import type { ITrainForm } from '../submission/request';
import { scheduling } from '../submission/schedule';
import { isByMemory } from '../submission/sizes';
import {
  hasTriggers,
  keepTriggers,
  mistakeOf,
  NO_TRIGGERS,
  promoteBody,
  triggersBody,
  triggersOf
} from '../submission/triggers';
import type { Connection } from '../server/api';
import { putSchedule } from '../server/schedules';
import { submitSweep } from '../server/sweeps';
import type { LeftOut } from '../server/types';
import { draftOf, keepDraft, mistakeIn, sweeping } from '../submission/sweep';
import type { TrainModel } from '../submission/train';
import {
  usePanel,
  useSignal,
  useTopics,
  useWords
} from '../components/context';
import { TrainAdvice } from './advice';
import { NO_LIMIT, sizes, timeLimits } from './choices';
import { NumberField, Segmented, SelectField } from './fields';
import { ActionButton, Callout } from '../components/parts';
import { ProfileField, PublishProfile, useProfiles } from './profiles';
import { QuotaLine } from './quotaline';
import { trainMessages, type TrainMessages } from './messages';
import { TrainMore } from './moreoptions';
import { SweepFields, SweepQuota } from './sweep';
import { sweepWords } from './sweepmessages';
import { ITimes, useTimes, When } from './when';
import { SUBMIT, useFocus } from '../components/formfocus';
import { Environment, WhatToRun } from './what';
import { Workers } from './workers';

const BY_MEMORY = 'memory';
const JOB = 'job';
const SWEEP = 'sweep';

/** A sweep that was refused, as it was sent. */
interface IRefused {
  form: object;
  draft: object;
  text: string | null;
}

export function TrainForm(): React.JSX.Element {
  const { model, train, commands, trans } = usePanel();
  const msg = useWords(trainMessages);
  useSignal(train.changed);
  useTopics(model, ['status', 'teams']);
  const { form } = train;
  const { profiles, look, again } = useProfiles();
  const [isAdvising, setAdvising] = React.useState(false);
  const times = useTimes();
  const { isScheduled } = form;
  const isSwept = draftOf(train).isSwept && !isScheduled;
  const unsent = isSwept ? mistakeIn(draftOf(train)) : null;
  const words = useWords(sweepWords);
  const [refused, setRefused] = React.useState<IRefused | null>(null);
  const hindrance =
    whyNot(train, model.connection, msg, isSwept) ??
    (isScheduled ? whyNoTime(train, times, msg) : null) ??
    (unsent && words.mistake(unsent));
  const node = useFocus(train);
  const { source } = form;
  const path = source?.kind === 'file' ? source.path : null;
  const saved = train.candidate?.savedMs;
  React.useEffect(() => {
    void train.loadFiles();
  }, [train, path, saved, form.environment, form.module]);
  React.useEffect(() => {
    void train.loadEnvironments();
  }, [train]);
  return (
    <form
      className="gc-Train"
      ref={node}
      // What was refused may be mended elsewhere by now: a secret, made in a terminal.
      onPointerEnter={() => {
        again();
        train.lookAgain();
      }}
      onFocus={() => {
        again();
        train.lookAgain();
      }}
      onSubmit={event => {
        event.preventDefault();
      }}
    >
      <Segmented
        label={trans.__('As')}
        name="gc-as"
        value={isSwept ? SWEEP : JOB}
        options={[
          { value: JOB, label: trans.__('Job') },
          {
            value: SWEEP,
            label: trans.__('Sweep'),
            title: trans.__('Many trials over values of its arguments')
          }
        ]}
        onChange={value => {
          train.update({ isScheduled: false });
          keepDraft(train, { isSwept: value === SWEEP });
        }}
      />
      <ProfileField profiles={profiles} />
      <WhatToRun />
      {isSwept ? <SweepFields /> : null}
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
      {isSwept ? null : <When times={times} />}
      {train.isExpanded ? (
        <>
          <TrainMore />
          <PublishProfile profiles={profiles} onChange={look} />
        </>
      ) : null}
      <LeftBehind />
      <p className="gc-Muted gc-Hint">{msg.ownChoices(form, train.files)}</p>
      {train.advice.map(text => (
        <Callout key={text} tone="borrow">
          {text}
        </Callout>
      ))}
      <GoesOn form={form} msg={msg} />
      {isSwept ? (
        <SweepQuota
          refused={
            refused?.form === form && refused.draft === draftOf(train)
              ? refused.text
              : null
          }
        />
      ) : isScheduled && train.problem === null ? null : (
        <QuotaLine train={train} />
      )}
      <div className="gc-Row gc-Buttons">
        <ActionButton
          id={SUBMIT}
          isPrimary={train.problem === null}
          hindrance={hindrance}
          isBusy={train.isBusy}
          describedBy="gc-quote"
          onClick={() => {
            void (isSwept ? sweep() : isScheduled ? schedule() : submit());
          }}
        >
          {train.isBusy
            ? trans.__('Submitting…')
            : isSwept
              ? trans.__('Submit sweep')
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
            if (!isAdvising) {
              train.goTo('advice');
            }
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
      <Together />
    </form>
  );

  async function schedule(): Promise<void> {
    const made = await train.send(sent =>
      putSchedule(train.api, {
        ...scheduling(sent),
        ...(sent.cron.trim()
          ? {}
          : { schedule: undefined, time_zone: sent.timeZone.trim() || 'UTC' }),
        triggers: triggersBody(
          triggersOf(train),
          PageConfig.getOption('serverRoot')
        ),
        promote: promoteBody(triggersOf(train))
      })
    );
    if (made !== null) {
      train.setExpanded(false);
      keepTriggers(train, NO_TRIGGERS);
      void commands.execute(CommandIDs.schedules, {
        wanted: `${made.owner}/${made.name}`
      });
    }
  }

  async function sweep(): Promise<void> {
    const draft = draftOf(train);
    const made = await train.send((sent, key) =>
      submitSweep(train.api, sweeping(sent, draft), key)
    );
    if (made === null) {
      setRefused({ form: train.form, draft, text: train.problem });
    } else {
      train.setExpanded(false);
      keepDraft(train, { isSwept: false });
      void commands.execute(CommandIDs.sweeps, { wanted: made.id });
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
  msg: TrainMessages,
  isSwept: boolean
): string | null {
  const away = msg.outOfReach(connection);
  if (away !== null || train.form.source === null) {
    return away ?? msg.openFirst();
  }
  if (train.mustChoose) {
    return msg.chooseLeftOut();
  }
  const [mistake] = train.mistakes;
  // What is asked of one job is not what a trial is asked.
  const refusal = isSwept ? null : train.refusal;
  if (mistake) {
    return msg.mistake(mistake, train.form);
  }
  const words = ['name', 'module', 'maxPrice'].map(field =>
    msg.wrongWord(field, train.form)
  );
  return words.find(each => each !== null) ?? refusal;
}

/** Why a schedule cannot be made: times that are none, or neither times nor whole triggers. */
function whyNoTime(
  train: TrainModel,
  times: ITimes | null,
  msg: TrainMessages
): string | null {
  const draft = triggersOf(train);
  const wrong = mistakeOf(draft);
  if (wrong !== null) {
    return msg.wrongTrigger(wrong, draft);
  }
  const { cron, timeZone } = train.form;
  if (cron.trim() === '' && hasTriggers(draft)) {
    return null;
  }
  if (timeZone.trim() === '') {
    return msg.zoneFirst();
  }
  return times?.next.length ? null : msg.timesFirst();
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
