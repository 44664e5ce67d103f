/** The page of pipelines: a list of them, and one as a graph of its steps. */
import { Dialog, showDialog } from '@jupyterlab/apputils';
import * as React from 'react';

import { visible } from '../text/visible';
import { usePanel, useTopics, useWords } from '../components/context';
import { h } from '../components/h';
import { useLooked } from '../components/polling';
import { ActionButton, Callout, LinkButton, Pill } from '../components/parts';
import { CommandIDs } from '../lab/ids';
import { Standing } from '../panel/panel';
import { told } from '../server/api';
import {
  IPipeline,
  IStep,
  pipelineOf,
  pipelinesOf,
  steerPipeline
} from '../server/pipelines';
import { IEdge, IPlaced, layout, STEP_HEIGHT, STEP_WIDTH } from './layout';
import { pipelineMessages } from './messages';

/** Of a pipeline and of a step. */
const TONES: Record<string, string> = {
  running: 'running',
  submitted: 'running',
  succeeded: 'finished',
  failed: 'failed',
  refused: 'failed'
};

export function PipelinePage(props: {
  /** The one that was asked for, as `owner/name`. */
  wanted: string | null;
}): React.JSX.Element {
  const { model, commands, msg: words, trans } = usePanel();
  const msg = useWords(pipelineMessages);
  useTopics(model, ['status']);
  const [shown, setShown] = React.useState(props.wanted);
  React.useEffect(() => {
    setShown(props.wanted);
  }, [props.wanted]);
  // The list is asked for apart: one and the same pipeline stands in both as it was seen last.
  const [looked, setLooked] = React.useState<IPipeline | null>(null);
  const list = useLooked(
    React.useCallback(() => pipelinesOf(model.api), [model])
  );
  const first = list.found?.pipelines[0];
  const rows = (list.found?.pipelines ?? []).map(each =>
    looked !== null && refOf(each) === refOf(looked) ? looked : each
  );
  const ref = shown ?? (first ? refOf(first) : null);
  return (
    <div className="gc-JobPage">
      <Standing />
      <header className="gc-Row gc-JobHeader">
        <h1>{trans.__('Pipelines')}</h1>
        <span className="gc-Right">
          <ActionButton
            hindrance={words.outOfReach(model.connection)}
            onClick={() => {
              void commands.execute(CommandIDs.runPipeline, { asks: true });
            }}
          >
            {trans.__('Run a pipeline file…')}
          </ActionButton>
        </span>
      </header>
      {list.problem !== null && model.connection === 'ok' ? (
        <Callout tone="error">{list.problem}</Callout>
      ) : null}
      {list.found?.pipelines.length === 0 ? (
        <p className="gc-Muted">{msg.none()}</p>
      ) : null}
      <div className={model.connection === 'ok' ? '' : 'gc-mod-stale'}>
        {ref === null ? null : (
          <OnePipeline key={ref} pipeline={ref} onLook={setLooked} />
        )}
        <table className="gc-Runs gc-Pipelines">
          <tbody>
            {rows.map(each => (
              <tr key={refOf(each)}>
                <td>
                  <span className="gc-Row">
                    <span
                      className={`gc-Dot gc-tone-${TONES[each.state] ?? 'plain'}`}
                      aria-hidden="true"
                    />
                    <LinkButton
                      onClick={() => {
                        setShown(refOf(each));
                      }}
                    >
                      {each.name}
                    </LinkButton>
                  </span>
                </td>
                <td>{msg.pipelineState(each)}</td>
                <td>{msg.done(each)}</td>
                <td className="gc-Muted">{`${each.team} · ${each.owner}`}</td>
                <td className="gc-Muted">{msg.submitted(each)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}

function OnePipeline(props: {
  pipeline: string;
  /** Is told what is shown, for its row in the list. */
  onLook: (found: IPipeline) => void;
}): React.JSX.Element | null {
  const { model, msg: words, trans } = usePanel();
  const msg = useWords(pipelineMessages);
  const [refused, setRefused] = React.useState<string | null>(null);
  const { found, problem, look } = useLooked(
    React.useCallback(
      () => pipelineOf(model.api, props.pipeline),
      [model, props.pipeline]
    )
  );
  const { onLook } = props;
  React.useLayoutEffect(() => {
    if (found !== null) {
      onLook(found);
    }
  }, [found, onLook]);
  if (found === null) {
    return problem === null ? null : <Callout tone="error">{problem}</Callout>;
  }
  const away = words.outOfReach(model.connection);
  const steer = async (
    verb: 'retry' | 'cancel',
    step?: string
  ): Promise<void> => {
    if (verb === 'cancel') {
      const { button } = await showDialog({
        title: msg.cancelTitle(step ?? found.name),
        body: msg.cancelBody(),
        buttons: [
          Dialog.cancelButton({ label: trans.__('Let it run') }),
          Dialog.warnButton({ label: trans.__('Cancel it') })
        ]
      });
      if (!button.accept) {
        return;
      }
    }
    try {
      await steerPipeline(model.api, found, verb, step);
      setRefused(null);
    } catch (error) {
      setRefused(told(error));
    }
    await look();
  };
  const failed = found.steps.find(each => each.name === found.retry_from);
  const tone = TONES[found.state] ?? 'plain';
  return (
    <section className="gc-Box gc-Pipeline" aria-label={found.name}>
      <div className="gc-Row gc-JobHeader">
        <span className={`gc-Dot gc-tone-${tone}`} aria-hidden="true" />
        <h3>{found.name}</h3>
        <Pill tone={tone}>{msg.pipelineState(found)}</Pill>
        {found.simulated ? <Pill>{trans.__('simulated')}</Pill> : null}
        <span className="gc-Muted">
          {`${msg.done(found)} · ${msg.submitted(found)}`}
        </span>
        <span className="gc-Row gc-Right">
          {found.steerable && found.ended_ms == null ? (
            <ActionButton
              hindrance={away}
              onClick={() => {
                void steer('cancel');
              }}
            >
              {trans.__('Cancel')}
            </ActionButton>
          ) : null}
        </span>
      </div>
      {refused === null ? null : <Callout tone="error">{refused}</Callout>}
      {failed && found.mine ? (
        <Callout tone="error">
          <span className="gc-Row">
            <span>
              <b>{`${failed.name}: ${msg.stepState(failed)}.`}</b>{' '}
              {failed.ended_text || failed.text}
              <br />
              {msg.keeps(found)}
            </span>
            <span className="gc-Right">
              <ActionButton
                isPrimary
                hindrance={away}
                onClick={() => {
                  void steer('retry', failed.name);
                }}
              >
                {trans.__('Retry from %1', failed.name)}
              </ActionButton>
            </span>
          </span>
        </Callout>
      ) : null}
      <Graph
        steps={found.steps}
        cancel={
          found.steerable && away === null
            ? name => {
                void steer('cancel', name);
              }
            : null
        }
      />
    </section>
  );
}

function Graph(props: {
  steps: readonly IStep[];
  cancel: ((name: string) => void) | null;
}): React.JSX.Element {
  const { steps, edges, width, height } = layout(props.steps);
  return (
    <div className="gc-Graph">
      <div className="gc-Graph-inner" style={{ width, height }}>
        <svg width={width} height={height} aria-hidden="true">
          {edges.map(each => (
            <path
              key={`${each.from}-${each.to}`}
              d={each.path}
              className={each.isThere ? '' : 'gc-mod-open'}
            />
          ))}
        </svg>
        {edges.map(each => (
          <EdgeWords key={`${each.from}-${each.to}`} edge={each} />
        ))}
        <ol className="gc-Steps">
          {steps.map(each => (
            <StepBox key={each.step.name} placed={each} cancel={props.cancel} />
          ))}
        </ol>
      </div>
    </div>
  );
}

function EdgeWords({ edge }: { edge: IEdge }): React.JSX.Element | null {
  return edge.labels.length === 0 ? null : (
    <span
      className="gc-Edge"
      style={{ left: edge.x, top: edge.y }}
      title={`${edge.from} → ${edge.to}: ${edge.labels.join(', ')}`}
    >
      {edge.labels.join(', ')}
    </span>
  );
}

function StepBox(props: {
  placed: IPlaced;
  cancel: ((name: string) => void) | null;
}): React.JSX.Element {
  const { step, x, y } = props.placed;
  const { cancel } = props;
  const { commands, trans } = usePanel();
  const msg = useWords(pipelineMessages);
  const job = step.job_id;
  const size = { width: STEP_WIDTH, height: STEP_HEIGHT };
  const isLive = step.state === 'waiting' || step.state === 'submitted';
  const inputs = step.inputs.map(each => visible(`${each.step}/${each.path}`));
  return (
    <li
      className={`gc-Step gc-tone-${toneOf(step)}`}
      data-state={step.state}
      style={{ left: x, top: y, ...size }}
      aria-label={step.name}
      title={
        inputs.length > 0 ? trans.__('reads %1', inputs.join(', ')) : undefined
      }
    >
      <div className="gc-Row">
        {job == null ? (
          <b>{step.name}</b>
        ) : (
          <LinkButton
            label={trans.__('Open the job %1', step.job_name)}
            onClick={() => {
              void commands.execute(CommandIDs.openJob, { job });
            }}
          >
            <b>{step.name}</b>
          </LinkButton>
        )}
        <span className="gc-Right gc-Muted">
          {step.retries > 0 ? `${trans.__('try %1', step.retries + 1)} · ` : ''}
          {msg.stepState(step)}
        </span>
      </div>
      <div className="gc-Step-what">{step.what}</div>
      <div className="gc-Row gc-Muted">
        <span className="gc-Step-what" title={step.text || undefined}>
          {step.text || msg.span(step)}
        </span>
        {isLive && cancel !== null ? (
          <span className="gc-Right">
            <LinkButton
              label={trans.__('Cancel %1 and what needs it', step.name)}
              onClick={() => {
                cancel(step.name);
              }}
            >
              {trans.__('Cancel')}
            </LinkButton>
          </span>
        ) : null}
      </div>
    </li>
  );
}

/** One that is in line, or was stopped, does not run. */
function toneOf({ state, job_state: job }: IStep): string {
  const waits = state === 'submitted' && job !== 'running';
  return (waits ? null : TONES[state]) ?? 'plain';
}

function refOf({ owner, name }: IPipeline): string {
  return `${owner}/${name}`;
}
