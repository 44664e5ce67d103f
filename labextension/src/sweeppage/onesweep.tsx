/** One sweep: how far it is, its best, charts, rungs and trials, and what can be done with it. */
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { UUID } from '@lumino/coreutils';
import * as React from 'react';

import { useNow, usePanel, useWords } from '../components/context';
import { Fragment, h } from '../components/h';
import { useLooked } from '../components/polling';
import { ActionButton, Bar, Callout, Pill } from '../components/parts';
import { told } from '../server/api';
import {
  addToBudget,
  figuresOf,
  IFigures,
  ISweep,
  stopSweep,
  sweepOf
} from '../server/sweeps';
import { percent } from '../text/format';
import { askForMore } from './budget';
import {
  bests,
  bestSoFar,
  canBeCompared,
  gpusInUse,
  parallel,
  told as points
} from './charts';
import { Chart } from './chart';
import { GoOnWithBest } from './best';
import { sweepMessages } from './messages';
import { Trials } from './trials';
import { BestTable, GpusTable } from './tables';

const REFRESH_MS = 3000;
const FIGURES_MS = 15_000;
/** Figures of a few trials change with each that tells something. */
const FEW = 20;
/** A sweep of many trials is asked for less often. */
const MANY = 200;
const REFRESH_MANY_MS = 10_000;

export function OneSweep(props: {
  sweep: string;
  /** Is told what is shown, for its row in the list. */
  onLook: (found: ISweep) => void;
}): React.JSX.Element | null {
  const { model } = usePanel();
  const { sweep: ref, onLook } = props;
  const [many, setMany] = React.useState(false);
  const { found, problem, look } = useLooked(
    React.useCallback(() => sweepOf(model.api, ref), [model, ref]),
    many ? REFRESH_MANY_MS : REFRESH_MS
  );
  // What they count is to be what the table beside them shows.
  const news = found === null ? '' : newsOf(found);
  const figures = useLooked(
    // Not beside the sweep itself, which the page waits for.
    React.useCallback(
      () => (news === '' ? Promise.resolve(null) : figuresOf(model.api, ref)),
      [model, ref, news]
    ),
    FIGURES_MS
  );
  React.useLayoutEffect(() => {
    if (found !== null) {
      onLook(found);
    }
  }, [found, onLook]);
  const count = found?.begun ?? 0;
  React.useEffect(() => {
    setMany(count > MANY);
  }, [count]);
  if (found === null) {
    return problem === null ? null : <Callout tone="error">{problem}</Callout>;
  }
  return (
    <section className="gc-Sweep" aria-label={found.name}>
      <Head sweep={found} look={look} />
      {found.text ? (
        <Callout tone={found.ended_ms == null ? 'borrow' : 'info'}>
          {found.text}
        </Callout>
      ) : null}
      <GoOnWithBest sweep={found} />
      <Boxes sweep={found} figures={figures.found} />
    </section>
  );
}

/** Another where figures are to be asked for at once. */
function newsOf(sweep: ISweep): string {
  const isOver = sweep.ended_ms != null;
  return `${Math.min(points(sweep.trials).length, FEW)} ${isOver}`;
}

const NO_ORDER = { asked: '', key: '' };

function Head(props: {
  sweep: ISweep;
  look: () => Promise<void>;
}): React.JSX.Element {
  const { sweep, look } = props;
  const { model, msg: words, trans } = usePanel();
  const msg = useWords(sweepMessages);
  const [refused, setRefused] = React.useState<string | null>(null);
  const order = React.useRef(NO_ORDER);
  const away = words.outOfReach(model.connection);
  const act = async (call: () => Promise<unknown>): Promise<void> => {
    try {
      await call();
      setRefused(null);
    } catch (error) {
      setRefused(told(error));
    }
    await look();
  };
  const add = async () => {
    const more = await askForMore(sweep, msg);
    if (more !== null) {
      // The same again after an answer that never came adds nothing twice.
      const asked = JSON.stringify(more);
      if (order.current.asked !== asked) {
        order.current = { asked, key: UUID.uuid4() };
      }
      await act(async () => {
        await addToBudget(model.api, sweep.id, more, order.current.key);
        order.current = NO_ORDER;
      });
    }
  };
  const stop = async () => {
    const { button } = await showDialog({
      title: msg.stopTitle(sweep.name),
      body: msg.stopBody(),
      buttons: [
        Dialog.cancelButton({ label: trans.__('Let it run') }),
        Dialog.warnButton({ label: trans.__('Stop it') })
      ]
    });
    if (button.accept) {
      await act(() => stopSweep(model.api, sweep.id));
    }
  };
  const each = (sweep.request?.roles ?? []).reduce(
    (sum, role) => sum + role.milli_gpu * role.count,
    0
  );
  const budget = sweep.budget_milli_gpu_s;
  const isOver = sweep.ended_ms != null;
  const mayAdd = isOver ? sweep.owner === model.whoami?.name : true;
  const tone = sweep.running > 0 ? 'running' : isOver ? 'finished' : 'plain';
  return (
    <>
      <header className="gc-Row gc-JobHeader">
        <span className={`gc-Dot gc-tone-${tone}`} aria-hidden="true" />
        <h1>{sweep.name}</h1>
        <Pill tone={tone}>{msg.sweepState(sweep)}</Pill>
        {sweep.simulated ? <Pill>{trans.__('simulated')}</Pill> : null}
        {sweep.steerable ? (
          <span className="gc-Row gc-Right">
            {sweep.kind === 'sweep' && mayAdd ? (
              <ActionButton hindrance={away} onClick={() => void add()}>
                {trans.__('Add budget…')}
              </ActionButton>
            ) : null}
            {isOver ? null : (
              <ActionButton hindrance={away} onClick={() => void stop()}>
                {trans.__('Stop')}
              </ActionButton>
            )}
          </span>
        ) : null}
      </header>
      {refused === null ? null : <Callout tone="error">{refused}</Callout>}
      <div className="gc-Facts">
        <div className="gc-Fact">
          <b>{msg.begun(sweep)}</b>
          <span>{msg.counts(sweep)}</span>
        </div>
        <div className="gc-Fact">
          <b>{msg.held(each * sweep.running)}</b>
          <span>{msg.perTrial(each, sweep.max_parallel)}</span>
        </div>
        <div className="gc-Fact">
          <b>{msg.used(sweep)}</b>
          <span>{msg.ends(sweep)}</span>
          {budget == null ? null : (
            <Bar
              label={msg.used(sweep)}
              isThin
              parts={[
                { percent: percent(sweep.milli_gpu_s, budget), tone: 'running' }
              ]}
            />
          )}
        </div>
        <div className="gc-Fact">
          <b>{`${sweep.team} · ${sweep.owner}`}</b>
          <span>{msg.sampler(sweep)}</span>
        </div>
      </div>
      {sweep.drawn?.length ? (
        <p className="gc-Muted">
          {trans.__('Drawn from %1', sweep.drawn.join(' · '))}
        </p>
      ) : null}
    </>
  );
}

function Boxes(props: {
  sweep: ISweep;
  figures: IFigures | null;
}): React.JSX.Element {
  const { model } = usePanel();
  const now = useNow(model);
  const until = props.sweep.ended_ms ?? Math.floor(now / 60_000) * 60_000;
  return <DrawnBoxes {...props} until={until} />;
}

/** Table and charts, drawn anew when they have something new to show, not each second. */
const DrawnBoxes = React.memo(
  (props: {
    sweep: ISweep;
    figures: IFigures | null;
    until: number;
  }): React.JSX.Element => {
    const { sweep, figures, until } = props;
    const { trans } = usePanel();
    const msg = useWords(sweepMessages);
    const best = bests(sweep);
    const gpus = figures?.gpus ?? [];
    const words = msg.chartWords();
    const headings = Object.fromEntries(
      Object.keys(sweep.best?.values ?? {}).map(name => [
        name,
        msg.explains(name, figures?.importance[name])
      ])
    );
    return (
      <div className="gc-Sweep-boxes">
        {best.length === 0 ? null : (
          <section className="gc-Box">
            <BoxHead
              title={trans.__('Best so far')}
              aside={msg.betterIs(sweep)}
            />
            <Chart
              label={trans.__('The best value over time')}
              spec={colours => bestSoFar(sweep, until, words, colours)}
              instead={msg.noCharts()}
            />
            <BestTable points={best} metric={sweep.metric} />
            {msg.gaps(sweep).map(each => (
              <p className="gc-Muted" key={each}>
                {each}
              </p>
            ))}
          </section>
        )}
        <section className="gc-Box">
          <BoxHead
            title={trans.__('GPUs in use')}
            aside={trans.__('mean of each minute')}
          />
          {gpus.length === 0 ? (
            <p className="gc-Muted">{msg.noGpus(sweep)}</p>
          ) : (
            <>
              <Chart
                label={trans.__('GPUs in use over time')}
                spec={colours =>
                  gpusInUse(
                    gpus,
                    sweep.ended_ms ?? until + 60_000,
                    words,
                    colours
                  )
                }
                instead={msg.noCharts()}
              />
              <GpusTable gpus={gpus} />
            </>
          )}
        </section>
        <Trials sweep={sweep} />
        {sweep.metric === '' ? null : (
          <section className="gc-Box">
            <BoxHead
              title={trans.__('What matters')}
              aside={trans.__('each line is a trial, blue: the best')}
            />
            {!canBeCompared(sweep.trials) ? (
              <p className="gc-Muted">
                {trans.__('Drawn once two trials have told it.')}
              </p>
            ) : (
              <Chart
                label={trans.__(
                  'Each trial’s values and what came of them; they stand in the table of trials'
                )}
                spec={colours => parallel(sweep, headings, words, colours)}
                instead={msg.noCharts()}
              />
            )}
            <p className="gc-Muted">{figures?.importance_text}</p>
            <Rungs sweep={sweep} />
          </section>
        )}
      </div>
    );
  }
);

export function BoxHead(props: {
  title: string;
  aside: React.ReactNode;
}): React.JSX.Element {
  return (
    <div className="gc-Row">
      <h2>{props.title}</h2>
      <span className="gc-Right gc-Muted">{props.aside}</span>
    </div>
  );
}

function Rungs({ sweep }: { sweep: ISweep }): React.JSX.Element | null {
  const { trans } = usePanel();
  const msg = useWords(sweepMessages);
  const most = Math.max(1, ...sweep.rungs.map(each => each.came));
  return sweep.rungs.length === 0 ? null : (
    <>
      <h2>{trans.__('Rungs')}</h2>
      {sweep.rungs.map((rung, index) => (
        <div className="gc-Rung" key={rung.step}>
          <span>{msg.rung(index + 1, rung)}</span>
          <Bar
            label={`${msg.rung(index + 1, rung)}: ${msg.wentOn(rung)}`}
            parts={[
              { percent: percent(rung.went_on, most), tone: 'running' },
              { percent: percent(rung.came - rung.went_on, most), tone: 'rest' }
            ]}
          />
          <span>{msg.wentOn(rung)}</span>
        </div>
      ))}
    </>
  );
}
