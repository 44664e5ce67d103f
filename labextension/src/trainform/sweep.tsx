/** What *Train* asks of a sweep: what is tried, what counts as best, how much of it, and who draws. */
import * as React from 'react';

import { usePanel, useSignal, useWords } from '../components/context';
import { Fragment, h } from '../components/h';
import { Callout, LinkButton } from '../components/parts';
import { told } from '../server/api';
import type { IQuote } from '../server/types';
import {
  draftOf,
  IParameter,
  ISweepDraft,
  keepDraft,
  ISweepMistake,
  mistakeIn,
  mistakesIn,
  rungsOf,
  Sampler,
  Scale,
  trialRequest,
  wholeRanges
} from '../submission/sweep';
import { DraftField, marksOf, Mistake, SelectField } from './fields';
import { leadOf } from './quotaline';
import { sweepWords } from './sweepmessages';

const DEBOUNCE_MS = 300;
const NAME_EXAMPLE = '--lr';
const RANGE_EXAMPLE = '0.0001 to 0.1';
const CHOICES_EXAMPLE = '32, 64, 128';

export function SweepFields(): React.JSX.Element {
  const { train, trans } = usePanel();
  const msg = useWords(sweepWords);
  const draft = draftOf(train);
  const change = (some: Partial<ISweepDraft>) => {
    keepDraft(train, some);
  };
  return (
    <>
      <Space />
      <div className="gc-Pair">
        <Typed field="metric" label={trans.__('Metric')} example="accuracy" />
        <SelectField
          id="gc-sweep-best"
          label={trans.__('Best is')}
          value={draft.isHighest ? 'highest' : 'lowest'}
          options={[
            { value: 'highest', label: trans.__('highest') },
            { value: 'lowest', label: trans.__('lowest') }
          ]}
          onChange={value => {
            change({ isHighest: value === 'highest' });
          }}
        />
      </div>
      <div className="gc-Pair">
        <Typed
          field="trials"
          label={trans.__('Trials, at most')}
          example="40"
        />
        <Typed
          field="gpuHours"
          label={trans.__('GPU-hours, at most')}
          example={trans.__('no bound')}
        />
        <Typed field="atOnce" label={trans.__('At once')} example="8" />
      </div>
      <SelectField
        id="gc-sweep-sampler"
        label={trans.__('Who draws')}
        value={draft.sampler}
        options={msg.samplers()}
        onChange={value => {
          change({ sampler: value as Sampler });
        }}
      />
      <label className="gc-Check">
        <input
          type="checkbox"
          className="jp-mod-styled"
          checked={draft.pauses}
          onChange={event => {
            change({ pauses: event.target.checked });
          }}
        />
        {trans.__('Pause trials that fall behind')}
      </label>
      {draft.pauses ? (
        <>
          <div className="gc-Pair">
            <Typed
              field="firstStep"
              label={trans.__('First compared at step')}
              example="5"
            />
            <Typed
              field="lastStep"
              label={trans.__('Done at step')}
              example="45"
            />
          </div>
          {mistakeAt(draft, 'firstStep') ||
          mistakeAt(draft, 'lastStep') ? null : (
            <p className="gc-Muted gc-Hint">{msg.compared(rungsOf(draft))}</p>
          )}
        </>
      ) : null}
    </>
  );
}

/** The search space: a line for each parameter. */
function Space(): React.JSX.Element {
  const { train, trans } = usePanel();
  const msg = useWords(sweepWords);
  const draft = draftOf(train);
  const { parameters } = draft;
  const mistakes = mistakesIn(draft);
  const wrong = (index: number): string | null => {
    const { name = '', values = '' } = parameters[index] ?? {};
    // A line that is half written is not wrong yet: what is missing is told below the form.
    const isWritten = name.trim() !== '' && values.trim() !== '';
    const found = mistakes.find(each => each.line === index);
    return found && isWritten ? msg.mistake(found) : null;
  };
  const put = (index: number, some: Partial<IParameter>) => {
    keepDraft(train, {
      parameters: parameters.map((each, at) =>
        at === index ? { ...each, ...some } : each
      )
    });
  };
  return (
    <fieldset className="gc-Field gc-Space">
      <legend>{trans.__('Try')}</legend>
      {parameters.map((each, index) => (
        <Fragment key={index}>
          <div className="gc-Try">
            <input
              {...marksOf(`gc-try-${index}`, wrong(index))}
              aria-label={trans.__('Parameter %1', index + 1)}
              value={each.name}
              placeholder={NAME_EXAMPLE}
              spellCheck={false}
              onChange={event => {
                put(index, { name: event.target.value });
              }}
            />
            <input
              {...marksOf(`gc-try-${index}`, wrong(index))}
              id={undefined}
              aria-label={trans.__('Values of parameter %1', index + 1)}
              value={each.values}
              placeholder={
                each.scale === 'choice' ? CHOICES_EXAMPLE : RANGE_EXAMPLE
              }
              spellCheck={false}
              onChange={event => {
                put(index, { values: event.target.value });
              }}
            />
            <select
              className="jp-mod-styled gc-Input"
              aria-label={trans.__('How parameter %1 is drawn', index + 1)}
              value={each.scale}
              onChange={event => {
                put(index, { scale: event.target.value as Scale });
              }}
            >
              {msg.scales().map(({ value, label }) => (
                <option key={value} value={value}>
                  {label}
                </option>
              ))}
            </select>
          </div>
          <Mistake of={`gc-try-${index}`} text={wrong(index)} />
        </Fragment>
      ))}
      {wholeRanges(parameters).map(each => (
        <p key={each.name} className="gc-Muted gc-Hint">
          {msg.whole(each)}
        </p>
      ))}
      <p className="gc-Muted gc-Hint">
        {msg.arguments()}{' '}
        <LinkButton
          onClick={() => {
            keepDraft(train, {
              parameters: [
                ...parameters,
                { name: '', values: '', scale: 'choice' }
              ]
            });
          }}
        >
          {trans.__('Add one')}
        </LinkButton>
        {parameters.length > 1 ? (
          <>
            {' · '}
            <LinkButton
              onClick={() => {
                keepDraft(train, { parameters: parameters.slice(0, -1) });
              }}
            >
              {trans.__('Remove the last')}
            </LinkButton>
          </>
        ) : null}
      </p>
    </fieldset>
  );
}

type TypedField =
  'metric' | 'trials' | 'gpuHours' | 'atOnce' | 'firstStep' | 'lastStep';

function Typed(props: {
  field: TypedField;
  label: string;
  example: string;
}): React.JSX.Element {
  const { train } = usePanel();
  const msg = useWords(sweepWords);
  const { field } = props;
  const draft = draftOf(train);
  const found = mistakeAt(draft, field);
  return (
    <DraftField
      {...props}
      id={`gc-sweep-${field}`}
      value={draft[field]}
      mistake={found ? msg.mistake(found) : null}
      onChange={value => {
        keepDraft(train, { [field]: value });
      }}
    />
  );
}

/** What is wrong with what stands in a field; what is not written yet is no mistake of it. */
function mistakeAt(
  draft: ISweepDraft,
  field: TypedField
): ISweepMistake | undefined {
  const isStep = field === 'firstStep' || field === 'lastStep';
  // Of two steps that do not fit each other, the second is the one to mend.
  const isWhole = /^\s*[1-9][0-9]*\s*$/.test(draft.firstStep);
  const ofSteps = isWhole ? 'lastStep' : 'firstStep';
  const name = isStep ? (field === ofSteps ? 'steps' : null) : field;
  return mistakesIn(draft).find(
    each => each.field === name && each.field !== 'metric'
  );
}

/** What the quota says to the sweep as one: to a trial of it, and how many of them there may be. */
export function SweepQuota(props: {
  /** Why the last submit of this very sweep was refused. */
  refused: string | null;
}): React.JSX.Element {
  const { model, train } = usePanel();
  const msg = useWords(sweepWords);
  useSignal(train.changed);
  const { form } = train;
  const [quote, setQuote] = React.useState<IQuote | null>(null);
  const [problem, setProblem] = React.useState<string | null>(null);
  const asked = JSON.stringify(
    trialRequest({ ...form, launcher: train.launcher })
  );
  const canAsk = form.source !== null && train.mistakes.length === 0;
  const [looks, setLooks] = React.useState(0);
  React.useEffect(() => {
    // What is free has changed with what the teams hold.
    const again = (_: unknown, topic: string) => {
      if (topic === 'teams') {
        setLooks(count => count + 1);
      }
    };
    model.changed.connect(again);
    return () => {
      model.changed.disconnect(again);
    };
  }, [model]);
  React.useEffect(() => {
    if (!canAsk) {
      return;
    }
    let isCurrent = true;
    const timer = window.setTimeout(() => {
      model.api.quote(JSON.parse(asked) as never).then(
        found => {
          if (isCurrent) {
            setQuote(found);
            setProblem(null);
          }
        },
        (error: unknown) => {
          if (isCurrent) {
            setQuote(null);
            setProblem(told(error));
          }
        }
      );
    }, DEBOUNCE_MS);
    return () => {
      isCurrent = false;
      window.clearTimeout(timer);
    };
  }, [model, asked, canAsk, looks]);
  const draft = draftOf(train);
  const mistake = mistakeIn(draft);
  const refused = props.refused ?? problem;
  const [lead, rest] = leadOf(quote?.text ?? '');
  return (
    <Callout tone={refused === null ? 'borrow' : 'error'} id="gc-quote">
      {refused !== null ? (
        refused
      ) : mistake !== null ? (
        msg.mistake(mistake)
      ) : (
        <>
          {lead ? <b>{lead} </b> : null}
          {rest} {msg.asOne(draft, form)}
        </>
      )}
    </Callout>
  );
}
