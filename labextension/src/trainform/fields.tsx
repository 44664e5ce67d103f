/** Form fields with their labels. Those of the *Train* form know which part of it they show. */
import { HTMLSelect } from '@jupyterlab/ui-components';
import type * as React from 'react';

import { isWhole, ITrainForm, NumberName, range } from '../submission/request';
import { usePanel, useWords } from '../components/context';
import { h } from '../components/h';
import { trainMessages } from './messages';
import { refusedField } from '../submission/refusals';

export interface IOption {
  value: string;
  label: string;
  /** What it means, where the label is short. */
  title?: string;
}

function Labelled(props: {
  id: string;
  label: string;
  children: React.ReactNode;
}): React.JSX.Element {
  return (
    <div className="gc-Field">
      <label htmlFor={props.id}>{props.label}</label>
      {props.children}
    </div>
  );
}

export function SelectField(props: {
  id: string;
  label: string;
  value: string;
  options: readonly IOption[];
  onChange: (value: string) => void;
}): React.JSX.Element {
  return (
    <Labelled id={props.id} label={props.label}>
      <HTMLSelect
        id={props.id}
        className="gc-Select"
        value={props.value}
        onChange={event => {
          props.onChange(event.target.value);
        }}
      >
        {props.options.map(option => (
          <option key={option.value} value={option.value}>
            {option.label}
          </option>
        ))}
      </HTMLSelect>
    </Labelled>
  );
}

/** A line of a draft that is kept beside the form: it is sent as it was typed. */
export function DraftField(props: {
  id: string;
  label: string;
  value: string;
  example: string;
  /** What is wrong with what is typed; null where nothing is. */
  mistake?: string | null;
  onChange: (value: string) => void;
}): React.JSX.Element {
  const { id, mistake = null } = props;
  return (
    <Labelled id={id} label={props.label}>
      <input
        {...marksOf(id, mistake)}
        value={props.value}
        placeholder={props.example}
        spellCheck={false}
        onChange={event => {
          props.onChange(event.target.value);
        }}
      />
      <Mistake of={id} text={mistake} />
    </Labelled>
  );
}

/** What a field of this name has, right or wrong. */
export function marksOf(id: string, mistake: string | null): object {
  return {
    id,
    className: 'jp-mod-styled gc-Input',
    'aria-invalid': mistake === null ? undefined : true,
    'aria-describedby': mistake === null ? undefined : `${id}-mistake`
  };
}

/** The sentence below a field that is wrong. */
export function Mistake(props: {
  of: string;
  text: string | null;
}): React.JSX.Element | null {
  return props.text === null ? null : (
    <p className="gc-Error" id={`${props.of}-mistake`}>
      {props.text}
    </p>
  );
}

export function TextField(props: {
  field:
    | 'arguments'
    | 'module'
    | 'variables'
    | 'name'
    | 'secrets'
    | 'cron'
    | 'timeZone'
    | 'maxPrice';
  label: string;
  placeholder: string;
  rows?: number;
}): React.JSX.Element {
  const { train } = usePanel();
  const { field } = props;
  const Input = props.rows ? 'textarea' : 'input';
  return (
    <Checked field={field} label={props.label}>
      {marks => (
        <Input
          {...marks}
          value={train.form[field]}
          placeholder={props.placeholder}
          rows={props.rows}
          spellCheck={false}
          onChange={(
            event: React.ChangeEvent<HTMLInputElement | HTMLTextAreaElement>
          ) => {
            train.update({ [field]: event.target.value });
          }}
        />
      )}
    </Checked>
  );
}

/** What is typed stays as it is typed: whoever clears a field to write another number may. */
export function NumberField(props: { field: NumberName }): React.JSX.Element {
  const { train } = usePanel();
  const msg = useWords(trainMessages);
  const { field } = props;
  const [min, max] = range(field, train.form);
  return (
    <Checked field={field} label={msg.number(field)}>
      {marks => (
        <input
          {...marks}
          type="number"
          value={train.typed[field] ?? train.form[field] ?? ''}
          min={min}
          max={max}
          step={isWhole(field) ? 1 : min}
          onChange={event => {
            train.type(field, event.target.value);
          }}
        />
      )}
    </Checked>
  );
}

/** A field of the form that may be wrong, and then says so. */
function Checked(props: {
  field: keyof ITrainForm;
  label: string;
  children: (marks: object) => React.ReactNode;
}): React.JSX.Element {
  const { train } = usePanel();
  const msg = useWords(trainMessages);
  const id = `gc-${props.field}`;
  const found = train.mistakes.find(each => each.field === props.field);
  const mistake = found
    ? msg.mistake(found, train.form)
    : (msg.wrongWord(props.field, train.form) ??
      (refusedField(train.problem, train.form) === props.field
        ? train.problem
        : null));
  return (
    <Labelled id={id} label={props.label}>
      {props.children(marksOf(id, mistake))}
      <Mistake of={id} text={mistake} />
    </Labelled>
  );
}

/** One of a few: radio buttons drawn as one bar, with the arrow keys of radio buttons. */
export function Segmented(props: {
  label: string;
  /** Where there are several such bars. */
  name?: string;
  value: string;
  options: readonly IOption[];
  onChange: (value: string) => void;
}): React.JSX.Element {
  return (
    <fieldset className="gc-Field gc-Segmented">
      <legend>{props.label}</legend>
      <div>
        {props.options.map(option => (
          <label key={option.value} title={option.title}>
            <input
              type="radio"
              name={props.name ?? 'gc-segmented'}
              value={option.value}
              checked={option.value === props.value}
              onChange={() => {
                props.onChange(option.value);
              }}
            />
            <span>{option.label}</span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}

export function CheckField(props: {
  field: 'overQuota';
  label: string;
}): React.JSX.Element {
  const { train } = usePanel();
  return (
    <label className="gc-Check">
      <input
        type="checkbox"
        className="jp-mod-styled"
        checked={train.form[props.field]}
        onChange={event => {
          train.update({ [props.field]: event.target.checked });
        }}
      />
      {props.label}
    </label>
  );
}
