/** *Train*: what to run, on how much, for how long; what the quota says to it; submit. */
import type * as React from 'react';

import { Fragment, h } from './h';

import { baseName, duration, gpus } from '../format';
import { CommandIDs } from '../ids';
import type { Messages } from '../messages';
import { sizesUpTo, TIME_LIMITS } from '../request';
import { trainingLimit } from '../team';
import type { ITeam } from '../tokens';
import type { TrainModel } from '../train';
import { usePanel, useSignal, useTopics } from './context';
import { CheckField, IOption, Segmented, SelectField } from './fields';
import { ActionButton, Callout, Section } from './parts';
import { TrainMore } from './trainmore';

const OTHER_FILE = 'other';
const NO_LIMIT = 'none';

export function Train(): React.JSX.Element {
  const { model, train, trans } = usePanel();
  useSignal(train.changed);
  useTopics(model, ['status', 'teams']);
  return (
    <Section id="train" title={trans.__('Train')}>
      <Form />
    </Section>
  );
}

function Form(): React.JSX.Element {
  const { model, train, msg, trans } = usePanel();
  const { form } = train;
  const canSubmit =
    form.source !== null &&
    !train.isBusy &&
    train.mistake === null &&
    model.connection === 'ok';
  return (
    <form
      className="gc-Train"
      onSubmit={event => {
        event.preventDefault();
      }}
    >
      <WhatToRun />
      <Segmented
        label={
          form.workers > 1
            ? trans.__('GPUs of each of %1 workers', form.workers)
            : trans.__('GPUs')
        }
        value={String(form.milliGpu)}
        options={sizes(form.milliGpu, teamOf(form.team, model.myTeams), msg)}
        onChange={value => {
          train.update({ milliGpu: Number(value) });
        }}
      />
      <SelectField
        id="gc-time"
        label={trans.__('Time limit')}
        value={form.maxRunS === null ? NO_LIMIT : String(form.maxRunS)}
        options={timeLimits(form.maxRunS, msg)}
        onChange={value => {
          train.update({ maxRunS: value === NO_LIMIT ? null : Number(value) });
        }}
      />
      {train.isExpanded ? <TrainMore /> : null}
      {form.source?.kind === 'job' && form.source.canReplace ? (
        <CheckField
          field="replaces"
          label={trans.__('Cancel %1 on submit', form.source.job.name)}
        />
      ) : null}
      <QuotaLine train={train} msg={msg} />
      <div className="gc-Row gc-Buttons">
        <ActionButton
          isPrimary
          isDisabled={!canSubmit}
          describedBy="gc-quote"
          onClick={() => {
            void submit();
          }}
        >
          {train.isBusy ? trans.__('Submitting…') : trans.__('Submit')}
        </ActionButton>
        <ActionButton
          isExpanded={train.isExpanded}
          onClick={() => {
            train.setExpanded(!train.isExpanded);
          }}
        >
          {train.isExpanded ? trans.__('Less') : trans.__('More…')}
        </ActionButton>
      </div>
    </form>
  );

  async function submit(): Promise<void> {
    const job = await train.submit();
    if (job !== null) {
      // What was asked for is done with; the new job's row comes into view instead.
      train.setExpanded(false);
      model.add(job);
    }
  }
}

function WhatToRun(): React.JSX.Element {
  const { train, msg, commands, trans } = usePanel();
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
      label: trans.__('Open a notebook or script first')
    });
  }
  options.push({ value: OTHER_FILE, label: trans.__('Another file…') });
  return (
    <>
      <SelectField
        id="gc-what"
        label={trans.__('What to run')}
        value={source?.kind === 'file' ? source.path : ''}
        options={options}
        onChange={value => {
          if (value === OTHER_FILE) {
            void commands.execute(CommandIDs.trainFile, {});
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

function QuotaLine(props: {
  train: TrainModel;
  msg: Messages;
}): React.JSX.Element | null {
  const { quote, problem } = props.train;
  if (problem !== null) {
    return (
      <Callout tone="error" id="gc-quote">
        {problem}
      </Callout>
    );
  }
  if (quote === null) {
    return null;
  }
  const [lead, rest] = leadOf(quote.text);
  const tone = quote.hold_class === 'over-quota' ? 'borrow' : 'good';
  const reason = quote.starts_now ? null : quote.reason?.text;
  return (
    <Callout tone={tone} id="gc-quote">
      {lead ? <b>{lead} </b> : null}
      {rest}
      {reason && !quote.text.includes(reason) ? ` ${reason}` : ''}
    </Callout>
  );
}

/** A short first sentence ("Over-quota.") is the verdict and stands out. */
export function leadOf(text: string): [string, string] {
  const match = /^(.{1,24}?\.)\s+(.+)$/s.exec(text);
  return match ? [match[1] ?? '', match[2] ?? ''] : ['', text];
}

/** The team that trains; undefined while several could. */
function teamOf(name: string, teams: readonly ITeam[]): ITeam | undefined {
  const mine = name ? teams.filter(team => team.name === name) : teams;
  return mine.length === 1 ? mine[0] : undefined;
}

function sizes(
  chosen: number,
  team: ITeam | undefined,
  msg: Messages
): IOption[] {
  const offered = sizesUpTo(team ? trainingLimit(team) : null);
  const all = offered.includes(chosen)
    ? offered
    : [...offered, chosen].sort((a, b) => a - b);
  return all.map(size => ({
    value: String(size),
    label: size === 0 ? msg.trans.__('CPU') : gpus(size)
  }));
}

function timeLimits(chosen: number | null, msg: Messages): IOption[] {
  const all = TIME_LIMITS.includes(chosen)
    ? TIME_LIMITS
    : [chosen, ...TIME_LIMITS];
  return all.map(limit => ({
    value: limit === null ? NO_LIMIT : String(limit),
    label: limit === null ? msg.trans.__('No limit') : limitWords(limit, msg)
  }));
}

function limitWords(seconds: number, msg: Messages): string {
  if (seconds % 86_400 === 0) {
    return msg.trans._n('%1 day', '%1 days', seconds / 86_400);
  }
  if (seconds % 3600 === 0) {
    return msg.trans._n('%1 hour', '%1 hours', seconds / 3600);
  }
  if (seconds % 60 === 0) {
    return msg.trans._n('%1 minute', '%1 minutes', seconds / 60);
  }
  return duration(seconds * 1000);
}
