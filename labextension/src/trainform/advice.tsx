/** *Advise*: how the training could run, before it is submitted; *Use this plan* fills the form. */
import * as React from 'react';

import { ActionButton, Callout, Pill } from '../components/parts';
import { usePanel, useWords } from '../components/context';
import { RecordLink } from '../components/recordlink';
import { Fragment, h } from '../components/h';
import { sorted } from '../model/jobs';
import { told } from '../server/api';
import type { IAdvice, IPlan } from '../server/plans';
import { takePlan, tryPlan } from '../submission/plan';
import { duration } from '../text/format';
import { moment } from '../text/moment';
import { SelectField } from './fields';
import { trainMessages } from './messages';

/** What is asked beside the form; numbers as they are typed. */
interface IQuestion {
  /** As typed; null = the one beside the script, where there is one. */
  config: string | null;
  /** The id of a job that trained it; '' = the file says what is trained. */
  like: string;
  batch: string;
  sequence: string;
  steps: string;
  objective: string;
  /** Of the browser's clock, as its field writes it. */
  deadline: string;
}

const NUMBERS = ['batch', 'sequence', 'steps'] as const;
const LIKE = 'gc-like';
const CONFIG = 'config.json';
/** So many of the reader's jobs can be named. */
const LISTED = 8;
const BY_DEADLINE = 'cheapest_by_deadline';

export function TrainAdvice(): React.JSX.Element {
  const { model, train, trans } = usePanel();
  const { form } = train;
  const past = sorted(model.jobs ?? [])
    .filter(job => !job.part_of && job.owner === model.whoami?.name)
    .slice(0, LISTED);
  const path = form.source?.kind === 'file' ? form.source.path : '';
  const [question, setQuestion] = React.useState<IQuestion>({
    config: null,
    like: '',
    batch: '64',
    sequence: '1024',
    steps: '1000',
    objective: 'fastest',
    deadline: ''
  });
  const beside = path.replace(/[^/]*$/, CONFIG);
  const isThere = train.files?.files.some(file => file.path === CONFIG);
  const config = question.config ?? (isThere ? beside : '');
  const [advice, setAdvice] = React.useState<IAdvice | null>(null);
  const [problem, setProblem] = React.useState<string | null>(null);
  const [isBusy, setBusy] = React.useState(false);
  const asked = React.useRef(0);
  const answer = React.useRef<HTMLDivElement>(null);
  React.useEffect(() => {
    if (advice !== null || problem !== null) {
      answer.current?.scrollIntoView({ block: 'nearest' });
    }
  }, [advice, problem]);
  const forget = () => {
    // What was answered is no answer to another question.
    asked.current += 1;
    setBusy(false);
    setAdvice(null);
    setProblem(null);
  };
  // Nor is what was said of another file.
  React.useEffect(forget, [question.like || config, path]);
  const labels = {
    batch: trans.__('Samples per step'),
    sequence: trans.__('Tokens of a sample'),
    steps: trans.__('Steps in all')
  };
  const wrong = NUMBERS.find(name => !isWhole(question[name]));
  const deadlineMs =
    question.objective === BY_DEADLINE ? Date.parse(question.deadline) : null;
  const change = (changed: Partial<IQuestion>) => {
    forget();
    setQuestion({ ...question, ...changed });
  };
  return (
    <section className="gc-Advice" aria-label={trans.__('Advice')}>
      {past.length > 0 ? (
        <SelectField
          id={LIKE}
          label={trans.__('What is trained')}
          value={question.like}
          options={[
            { value: '', label: trans.__('a model with a config.json') },
            ...past.map(job => ({
              value: job.id,
              label: trans.__('the same as %1', job.name)
            }))
          ]}
          onChange={like => {
            change({ like });
          }}
        />
      ) : null}
      {question.like ? (
        <p className="gc-Muted gc-Hint">
          {trans.__(
            'What its steps took with this batch says how fast it would be elsewhere.'
          )}
        </p>
      ) : (
        <>
          <div className="gc-Field">
            <label htmlFor="gc-config">
              {trans.__('Model: config.json of a Hugging Face model')}
            </label>
            <input
              id="gc-config"
              className="jp-mod-styled gc-Input"
              value={config}
              placeholder={beside}
              spellCheck={false}
              onChange={event => {
                change({ config: event.target.value });
              }}
            />
          </div>
          <p className="gc-Muted gc-Hint">
            {trans.__('For any other model: advise(model, loader) in a cell.')}
          </p>
        </>
      )}
      {NUMBERS.filter(name => name !== 'sequence' || !question.like).map(
        name => (
          <div className="gc-Field" key={name}>
            <label htmlFor={`gc-${name}`}>{labels[name]}</label>
            <input
              id={`gc-${name}`}
              type="number"
              className="jp-mod-styled gc-Input"
              value={question[name]}
              min={1}
              aria-invalid={isWhole(question[name]) ? undefined : true}
              onChange={event => {
                change({ [name]: event.target.value });
              }}
            />
          </div>
        )
      )}
      <SelectField
        id="gc-objective"
        label={trans.__('Best is')}
        value={question.objective}
        options={[
          { value: 'fastest', label: trans.__('done soonest') },
          { value: 'cheapest', label: trans.__('cheapest') },
          { value: BY_DEADLINE, label: trans.__('cheapest that is done by') }
        ]}
        onChange={objective => {
          change({ objective });
        }}
      />
      {deadlineMs === null ? null : (
        <div className="gc-Field">
          <label htmlFor="gc-deadline">{trans.__('Done by, your time')}</label>
          <input
            id="gc-deadline"
            type="datetime-local"
            className="jp-mod-styled gc-Input"
            value={question.deadline}
            onChange={event => {
              change({ deadline: event.target.value });
            }}
          />
        </div>
      )}
      <ActionButton
        isBusy={isBusy}
        hindrance={
          wrong
            ? trans.__('%1: a whole number above 0.', labels[wrong])
            : !question.like && !config.trim()
              ? trans.__('Name the model’s config.json.')
              : Number.isNaN(deadlineMs)
                ? trans.__('Say by when it has to be done.')
                : null
        }
        onClick={() => {
          void ask();
        }}
      >
        {isBusy ? trans.__('Asking…') : trans.__('Show plans')}
      </ActionButton>
      <div ref={answer} role="status" aria-busy={isBusy}>
        {problem === null ? null : <Callout tone="error">{problem}</Callout>}
        {advice === null ? null : <Plans advice={advice} />}
        {advice?.try_like ? <LikeAJob hasPast={past.length > 0} /> : null}
      </div>
    </section>
  );

  async function ask(): Promise<void> {
    if (isBusy) {
      return;
    }
    const mine = ++asked.current;
    setBusy(true);
    setProblem(null);
    try {
      const found = await train.advise({
        config: question.like ? '' : config.trim(),
        like: question.like ? [question.like] : [],
        script: path,
        asked: {
          batch: Number(question.batch),
          sequence: question.like ? 1 : Number(question.sequence),
          steps: Number(question.steps),
          objective: question.objective,
          deadline_ms: deadlineMs,
          team: form.team || null,
          priority: form.priority,
          over_quota: form.overQuota,
          environment: form.environment,
          cpu_milli: Math.round(form.cpus * 1000),
          memory_mib: Math.round(form.memoryGib * 1024)
        }
      });
      if (mine === asked.current) {
        setAdvice(found);
      }
    } catch (error) {
      if (mine === asked.current) {
        setProblem(told(error));
      }
    }
    if (mine === asked.current) {
      setBusy(false);
    }
  }
}

/** From "can't say yet" to the choice by which something can be said. */
function LikeAJob(props: { hasPast: boolean }): React.JSX.Element {
  const { trans } = usePanel();
  if (!props.hasPast) {
    return (
      <p className="gc-Muted gc-Hint">
        {trans.__(
          'Submit it with one GPU and a time limit; then choose that job here, in What is trained.'
        )}
      </p>
    );
  }
  return (
    <ActionButton
      onClick={() => {
        document.getElementById(LIKE)?.focus();
      }}
    >
      {trans.__('Plan it like one of my last jobs')}
    </ActionButton>
  );
}

/** What was answered: plans, or why there is none. */
export function Plans(props: { advice: IAdvice }): React.JSX.Element {
  const { advice } = props;
  const msg = useWords(trainMessages);
  return (
    <>
      {advice.declined ? (
        <Callout tone="info">{advice.declined}</Callout>
      ) : null}
      <ol className="gc-Plans">
        {advice.plans.map(plan => (
          <li key={`${plan.pool}/${plan.gpus}`}>
            <Plan plan={plan} advice={advice} />
          </li>
        ))}
      </ol>
      {[
        advice.plain_text,
        ...advice.why_not.map(each => msg.whyNot(each.gpus, each.text)),
        ...(advice.considered ? [msg.looked(advice.considered)] : []),
        ...advice.notes
      ]
        .filter(text => text !== '')
        .map(text => (
          <p className="gc-Muted" key={text}>
            {text}
          </p>
        ))}
      {advice.plans.length > 0 ? <RecordLink url={advice.record_url} /> : null}
    </>
  );
}

function Plan(props: { plan: IPlan; advice: IAdvice }): React.JSX.Element {
  const { plan, advice } = props;
  const { model, train, trans } = usePanel();
  const msg = useWords(trainMessages);
  const [said, setSaid] = React.useState('');
  const wait = plan.wait_note
    ? `${plan.wait_text} (${plan.wait_note})`
    : plan.wait_text;
  return (
    <div className="gc-Plan">
      <p>
        <b>{msg.advised(plan.gpus, plan.pool, plan.hold_class)}</b>{' '}
        <span title={msg.gradeMeans(plan.grade)}>
          <Pill>{trans.__('grade %1', plan.grade)}</Pill>
        </span>
      </p>
      <p>
        {trans.__('wait %1', wait)} · {done(plan, advice.now_ms)} ·{' '}
        {trans.__('%1 GPU-h', amount(plan.gpu_hours))}
        {plan.cost === null
          ? null
          : ` · ${plan.cost.toFixed(2)} ${advice.currency}`}
      </p>
      <p>
        {plan.layout} · {plan.memory_text} · {plan.speed_text}
      </p>
      <p className="gc-Muted">{plan.why}</p>
      <p className="gc-Muted">
        {plan.arguments?.length
          ? trans.__('Its script is started with: %1', plan.arguments.join(' '))
          : trans.__('In the script: %1.', plan.script.join('; '))}
        {plan.id ? ` ${trans.__('Plan number: %1', plan.id)}` : null}
      </p>
      <ActionButton
        onClick={() => {
          takePlan(train, plan, model.timeLimits);
          setSaid(msg.taken(train.form));
          train.goTo('workers');
        }}
      >
        {trans.__('Use this plan')}
      </ActionButton>{' '}
      {plan.id ? (
        <ActionButton
          onClick={() => {
            tryPlan(train, plan);
            setSaid(
              trans.__(
                'In the form now: five minutes of it, at low priority, on GPUs that may be borrowed. Submit starts it; its speed and memory then stand beside this plan on its page, and the next plans learn from them.'
              )
            );
            train.goTo('workers');
          }}
        >
          {trans.__('Try it for five minutes')}
        </ActionButton>
      ) : null}
      <p className="gc-Muted gc-Hint" role="status">
        {said}
      </p>
    </div>
  );

  function done(one: IPlan, nowMs: number): string {
    const { finish_s, run_s } = one;
    if (finish_s === null) {
      const [low, high] = [run_s.low, run_s.high].map(s => duration(s * 1000));
      return trans.__('%1 to %2 after its start', low, high);
    }
    const ends = [finish_s.low, finish_s.high].map(s => nowMs + s * 1000);
    const [low, high] = ends.map(ms => moment(ms, nowMs));
    // A short job's span lies within a minute.
    return low === high
      ? trans.__('done %1', low)
      : trans.__('done %1 to %2', low, high);
  }
}

function amount(hours: number): string {
  return hours >= 1 ? hours.toFixed(1) : hours.toPrecision(2);
}

function isWhole(text: string): boolean {
  return /^[1-9]\d{0,11}$/.test(text);
}
