/** The small parts that all sections share. */
import { caretDownIcon, caretRightIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { h } from './h';

export interface ISectionProps {
  id: string;
  title: string;
  /** A pill, unit or link at the right of the title. */
  aside?: React.ReactNode;
  /** Somebody is on the way to something in it: it opens. */
  isWanted?: boolean;
  children: React.ReactNode;
}

/** A collapsible section; it remembers how it was left, per browser. */
export function Section(props: ISectionProps): React.JSX.Element {
  const key = `gpucommons:section:${props.id}`;
  const [isOpen, setOpen] = React.useState(
    () => window.localStorage.getItem(key) !== 'closed'
  );
  const put = React.useCallback(
    (open: boolean) => {
      window.localStorage.setItem(key, open ? 'open' : 'closed');
      setOpen(open);
    },
    [key]
  );
  const toggle = () => {
    put(!isOpen);
  };
  const isWanted = props.isWanted === true;
  React.useEffect(() => {
    if (isWanted) {
      put(true);
    }
  }, [isWanted, put]);
  const bodyId = `gc-${props.id}`;
  const Caret = isOpen ? caretDownIcon : caretRightIcon;
  return (
    <section className="gc-Section" aria-label={props.title}>
      <div className="gc-Section-head">
        <h2>
          <button
            type="button"
            aria-expanded={isOpen}
            aria-controls={bodyId}
            onClick={toggle}
          >
            <Caret.react tag="span" className="gc-Section-caret" />
            {props.title}
          </button>
        </h2>
        {isOpen ? props.aside : null}
      </div>
      <div id={bodyId} className="gc-Section-body" hidden={!isOpen}>
        {isOpen ? props.children : null}
      </div>
    </section>
  );
}

export interface IBarProps {
  label: string;
  parts: { percent: number; tone: string }[];
  isThin?: boolean;
  /** Percent at which a line is drawn: where a quota ends. */
  mark?: number;
}

/** A bar of one or more tones; its words stand beside it, the label is for screen readers. */
export function Bar(props: IBarProps): React.JSX.Element {
  const total = props.parts.reduce((sum, part) => sum + part.percent, 0);
  return (
    <div
      className={props.isThin ? 'gc-Bar gc-mod-thin' : 'gc-Bar'}
      role="progressbar"
      aria-label={props.label}
      aria-valuenow={Math.round(Math.min(100, total))}
    >
      {props.parts.map(part => (
        <div
          key={part.tone}
          className={`gc-Bar-part gc-tone-${part.tone}`}
          style={{ width: `${part.percent}%` }}
        />
      ))}
      {props.mark && props.mark < 100 ? (
        <div className="gc-Bar-mark" style={{ left: `${props.mark}%` }} />
      ) : null}
    </div>
  );
}

export function Pill(props: {
  tone?: string;
  children: React.ReactNode;
}): React.JSX.Element {
  return (
    <span className={`gc-Pill gc-tone-${props.tone ?? 'plain'}`}>
      {props.children}
    </span>
  );
}

/** A note with a coloured edge: quota line, warning, refusal. */
export function Callout(props: {
  tone: 'info' | 'borrow' | 'error' | 'good' | 'guaranteed';
  id?: string;
  children: React.ReactNode;
}): React.JSX.Element {
  return (
    <div
      id={props.id}
      className={`gc-Callout gc-edge-${props.tone}`}
      role={props.tone === 'error' ? 'alert' : undefined}
    >
      {props.children}
    </div>
  );
}

export function LinkButton(props: {
  onClick: () => void;
  label?: string;
  title?: string;
  children: React.ReactNode;
}): React.JSX.Element {
  return (
    <button
      type="button"
      className="gc-Link"
      aria-label={props.label}
      title={props.title}
      onClick={props.onClick}
    >
      {props.children}
    </button>
  );
}

export function ActionButton(props: {
  onClick: () => void;
  id?: string;
  isPrimary?: boolean;
  /** Why it cannot be pressed now: it is disabled, and says so. */
  hindrance?: string | null;
  /** It works on it: pressing again does nothing, but the focus may stay. */
  isBusy?: boolean;
  isExpanded?: boolean;
  describedBy?: string;
  children: React.ReactNode;
}): React.JSX.Element {
  const { hindrance } = props;
  return (
    <button
      type="button"
      id={props.id}
      className={`jp-mod-styled ${props.isPrimary && !hindrance ? 'jp-mod-accept' : 'gc-mod-plain'} gc-Button`}
      disabled={Boolean(hindrance)}
      title={hindrance ?? undefined}
      aria-disabled={props.isBusy ? true : undefined}
      aria-expanded={props.isExpanded}
      aria-describedby={props.describedBy}
      onClick={props.onClick}
    >
      {props.children}
    </button>
  );
}
