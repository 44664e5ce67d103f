/** What *Train* runs, and the Python that it runs with. */
import * as React from 'react';

import { usePanel, useWords } from '../components/context';
import { Fragment, h } from '../components/h';
import { CommandIDs } from '../lab/ids';
import { recall, remember } from '../submission/remembered';
import type { TrainModel } from '../submission/train';
import { FIRST } from '../components/formfocus';
import { fileName } from '../text/visible';
import { IOption, SelectField } from './fields';
import { trainMessages } from './messages';

const OTHER_FILE = 'other';

export function WhatToRun(): React.JSX.Element {
  const { train, commands, trans } = usePanel();
  const msg = useWords(trainMessages);
  React.useEffect(() => {
    propose(train);
  });
  const { source, functionName } = train.form;
  const functions = train.candidate?.functions ?? [];
  const options: IOption[] = train.candidates.map((candidate, index) => ({
    value: candidate.path,
    label:
      index > 0
        ? fileName(candidate.path)
        : msg.thisFile(candidate.path, candidate.savedMs)
  }));
  if (source?.kind === 'file' && !train.candidate) {
    options.unshift({ value: source.path, label: fileName(source.path) });
  }
  if (source?.kind === 'job') {
    options.unshift({ value: '', label: msg.sameAs(source.job.name) });
  }
  if (source?.kind === 'profile') {
    const words = train.form.profile?.command ?? [];
    options.unshift({ value: '', label: words.join(' ') });
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
        id={FIRST}
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
            choosePart(train, value);
          }}
        />
      ) : null}
    </>
  );
}

/** The Python that it runs with. */
export function Environment(): React.JSX.Element | null {
  const { train } = usePanel();
  const msg = useWords(trainMessages);
  const { form, files, environments } = train;
  const path = form.source?.kind === 'file' ? form.source.path : null;
  React.useEffect(() => {
    recall(train);
  }, [train, path, environments]);
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
  // A job that is run again names it by its path, a profile perhaps by its name: one entry stands for both.
  const named = known.find(each => each.name === form.environment);
  const asked = named?.environment ?? form.environment;
  const value = asked === own?.environment ? '' : asked;
  if (!options.some(each => each.value === value)) {
    options.push({ value, label: msg.environmentAt(value) });
  }
  return (
    <SelectField
      id="gc-environment"
      label={msg.environmentLabel(form, own !== null)}
      value={value}
      options={options}
      onChange={environment => {
        if (form.source?.kind === 'file') {
          remember(form.source.path, environment);
        }
        train.update({ environment });
      }}
    />
  );
}

/** Notebooks of which the reader wants the whole. */
const WHOLE = new Set<string>();

/** Comments and texts of Python. In a text that begins with f something may be called. */
const NOT_RUN =
  /#.*|(\bf|\bfr|\brf)?(?:("""|''')(?:\\[\s\S]|[^\\])*?\2|"(?:\\[\s\S]|[^"\\\n])*"|'(?:\\[\s\S]|[^'\\\n])*')/gi;

/**
 * The one function that was written to be a job, or the one called `train`; empty where the notebook calls
 * it itself, be it in a loop or in another function. A notebook that only defines it would run for seconds
 * and do nothing; in one that calls it, a job would call it once more.
 */
export function proposedFunction(
  functions: readonly string[],
  sources: readonly string[]
): string {
  const name = functions.length > 1 ? 'train' : (functions[0] ?? '');
  // With all lines that belong to it: those that are deeper, or close its head.
  const own = `^([ \\t]*)(?:async +)?def +${name}\\b.*(?:\\n(?:\\1[ \\t)].*|[ \\t]*$))*`;
  const definition = new RegExp(own, 'gm');
  // Methods of that name, as `model.train()`, are others.
  const call = new RegExp(`(^|[^\\w.])${name}[ \\t]*\\(`, 'm');
  const isCalled = sources.some(each =>
    call.test(
      each
        .replace(NOT_RUN, (text, f?: string) => (f ? text : ''))
        .replace(definition, '')
    )
  );
  return functions.includes(name) && !isCalled ? name : '';
}

/** What the reader chooses of a notebook. */
export function choosePart(train: TrainModel, functionName: string): void {
  const path = train.candidate?.path;
  if (path !== undefined) {
    WHOLE[functionName === '' ? 'add' : 'delete'](path);
  }
  train.update({ functionName });
}

/** Put the proposal into the form. That is no edit: the form goes on to follow the document in front. */
export function propose(train: TrainModel): void {
  const { candidate, form } = train;
  if (!candidate || form.functionName !== '' || WHOLE.has(candidate.path)) {
    return;
  }
  const functionName = proposedFunction(
    candidate.functions,
    candidate.sources ?? []
  );
  if (functionName !== '') {
    train.form = { ...form, functionName };
    train.changed.emit();
  }
}
