/** Form fields with their labels. Those of the *Train* form know which part of it they show. */
import { HTMLSelect } from '@jupyterlab/ui-components';
import type * as React from 'react';

import type { ITrainForm } from '../request';
import { usePanel } from './context';
import { h } from './h';

export interface IOption {
  value: string;
  label: string;
}

/** Names of the form's fields that hold a value of this type. */
type FieldOf<T> = {
  [K in keyof ITrainForm]: T extends ITrainForm[K] ? K : never;
}[keyof ITrainForm];

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

export function TextField(props: {
  field: 'arguments' | 'name' | 'secrets';
  label: string;
  placeholder: string;
  rows?: number;
  problem?: string | null;
}): React.JSX.Element {
  const { train } = usePanel();
  const id = `gc-${props.field}`;
  const Input = props.rows ? 'textarea' : 'input';
  return (
    <Labelled id={id} label={props.label}>
      <Input
        id={id}
        className="jp-mod-styled gc-Input"
        value={train.form[props.field]}
        placeholder={props.placeholder}
        rows={props.rows}
        spellCheck={false}
        aria-invalid={props.problem ? true : undefined}
        onChange={(
          event: React.ChangeEvent<HTMLInputElement | HTMLTextAreaElement>
        ) => {
          train.update({ [props.field]: event.target.value });
        }}
      />
      {props.problem ? <p className="gc-Error">{props.problem}</p> : null}
    </Labelled>
  );
}

export function NumberField(props: {
  field: FieldOf<number>;
  label: string;
  min: number;
  max: number;
  step?: number;
}): React.JSX.Element {
  const { train } = usePanel();
  const { field, min, max } = props;
  const id = `gc-${field}`;
  return (
    <Labelled id={id} label={props.label}>
      <input
        id={id}
        className="jp-mod-styled gc-Input"
        type="number"
        value={Number(train.form[field])}
        min={min}
        max={max}
        step={props.step}
        onChange={event => {
          const value = event.target.valueAsNumber;
          if (value >= min && value <= max) {
            train.update({ [field]: value });
          }
        }}
      />
    </Labelled>
  );
}

/** One of a few: radio buttons drawn as one bar, with the arrow keys of radio buttons. */
export function Segmented(props: {
  label: string;
  value: string;
  options: readonly IOption[];
  onChange: (value: string) => void;
}): React.JSX.Element {
  return (
    <fieldset className="gc-Field gc-Segmented">
      <legend>{props.label}</legend>
      <div>
        {props.options.map(option => (
          <label key={option.value}>
            <input
              type="radio"
              name="gc-segmented"
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
