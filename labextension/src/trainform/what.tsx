/** What *Train* runs, and the Python that it runs with. */
import * as React from 'react';

import { usePanel, useWords } from '../components/context';
import { Fragment, h } from '../components/h';
import { CommandIDs } from '../lab/ids';
import { type ICandidate, trainFunctions } from '../submission/candidate';
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
  useEdits(train.candidate?.edited);
  React.useEffect(() => {
    propose(train);
  });
  const { source, functionName } = train.form;
  const functions = trainFunctions(train.candidate?.sources?.() ?? []);
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

/** So often at most a document is looked into while somebody types, or it prints. */
const EDITS_MS = 500;

/** Draw anew when the document was edited: what is proposed of it may be another. */
function useEdits(edited: ICandidate['edited']): void {
  const [, redraw] = React.useReducer((count: number) => count + 1, 0);
  React.useEffect(() => {
    let timer = 0;
    const slot = () => {
      timer ||= window.setTimeout(() => {
        timer = 0;
        redraw();
      }, EDITS_MS);
    };
    edited?.connect(slot);
    return () => {
      edited?.disconnect(slot);
      window.clearTimeout(timer);
    };
  }, [edited]);
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
/** By notebook, what was proposed. */
const PROPOSED = new Map<string, string>();

/**
 * Comments and texts of Python. In a text that begins with f something may be called. One that does not
 * close ends with its line, or its cell: to look again from each quote in it would take seconds.
 */
const NOT_RUN =
  /#.*|(\bf|\bfr|\brf)?(?:("""|''')(?:\\[\s\S]|[^\\])*?(?:\2|\\?$(?![\s\S]))|"(?:\\[\s\S]|[^"\\\n])*(?:"|\\?$)|'(?:\\[\s\S]|[^'\\\n])*(?:'|\\?$))/gim;

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
    PROPOSED.delete(path);
  }
  train.update({ functionName });
}

/**
 * Put the proposal into the form, or take it back where the notebook is another by now; what the reader
 * chose stays while it is there. That is no edit: the form goes on to follow the document in front.
 */
export function propose(train: TrainModel): void {
  const { candidate, form } = train;
  const sources = candidate?.sources?.() ?? [];
  // One without a cell of code is not loaded yet.
  if (!candidate || sources.length === 0) {
    return;
  }
  const { path } = candidate;
  const functions = trainFunctions(sources);
  const isChosen =
    form.functionName === ''
      ? WHOLE.has(path)
      : form.functionName !== PROPOSED.get(path) &&
        functions.includes(form.functionName);
  if (isChosen) {
    return;
  }
  const functionName = proposedFunction(functions, sources);
  PROPOSED.set(path, functionName);
  if (functionName !== form.functionName) {
    train.form = { ...form, functionName };
    train.changed.emit();
  }
}
