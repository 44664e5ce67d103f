/** The metric curve in SVG: an axis at each side, a mark where an attempt began. */
import * as React from 'react';

import { h } from '../components/h';

import { chosenMetrics, curveView, IBox, ISeries, place } from './curve';
import { jobMessages } from './messages';
import { metric } from '../text/format';
import { stepWord } from '../model/jobs';
import type { FollowedJob } from '../model/followed';
import type { CurveSource, ICurvePoint } from '../server/types';
import { usePanel, useWords } from '../components/context';

type Followed = Pick<FollowedJob, 'id' | 'points' | 'source' | 'sources'>;
type Shown = Pick<Followed, 'points' | 'source'>;

const HEIGHT = 210;
const TONES = ['first', 'second'];

export function CurveView(props: {
  followed: Followed;
  /** The job has ended: no point comes any more. */
  isOver?: boolean;
}): React.JSX.Element {
  const { model, trans } = usePanel();
  const msg = useWords(jobMessages);
  const [node, width] = useWidth();
  const [chosen, choose] = React.useState<CurveSource | null>(null);
  const { points, source } = useCurve(props.followed, chosen);
  const { sources } = props.followed;
  const [first] = points;
  const newest = points.at(-1);
  const names = chosenMetrics(points);
  return (
    <div className="gc-Box gc-Curve" ref={node}>
      <h2>
        {names.length === 2
          ? trans.__('%1 and %2', names[0], names[1])
          : (names[0] ?? trans.__('Metrics'))}
        {first || sources.length > 1 ? (
          <span className="gc-Right gc-Muted gc-Curve-source">
            {sources.length > 1 ? (
              <SourceSelect
                source={source}
                sources={sources}
                onChange={choose}
              />
            ) : (
              msg.curveSource(source)
            )}
          </span>
        ) : null}
      </h2>
      {names.length === 0 || !first ? (
        <p className="gc-Muted">
          {points.length === 0 && model.connection !== 'ok'
            ? msg.notLoaded()
            : newest && source !== 'report'
              ? msg.onlyCounts(`${msg.unit(unitOf(points))} ${place(newest)}`)
              : msg.noCurve(props.isOver)}
        </p>
      ) : points.length < 2 ? (
        <p>
          {[
            `${msg.unit(unitOf(points))} ${place(first)}`,
            ...names.map(
              name => `${name} ${metric(name, first.metrics[name] ?? NaN)}`
            )
          ].join(' · ')}
        </p>
      ) : (
        <Chart points={points} width={width} />
      )}
    </div>
  );
}

/** The best source's curve as it comes, or another's, asked for again whenever there is news. */
function useCurve(followed: Followed, chosen: CurveSource | null): Shown {
  const { model } = usePanel();
  const [other, setOther] = React.useState<Shown | null>(null);
  const wanted = chosen === followed.source ? null : chosen;
  React.useEffect(() => {
    let isGone = false;
    if (wanted !== null) {
      model.api.curve(followed.id, wanted).then(
        found => {
          if (!isGone) {
            setOther({ points: found.points, source: wanted });
          }
        },
        // What is shown stays; the next news asks again.
        () => undefined
      );
    }
    return () => {
      isGone = true;
    };
  }, [followed.id, followed.points, wanted]);
  return wanted !== null && other?.source === wanted ? other : followed;
}

function SourceSelect(props: {
  source: CurveSource;
  sources: readonly CurveSource[];
  onChange: (source: CurveSource) => void;
}): React.JSX.Element {
  const { trans } = usePanel();
  const msg = useWords(jobMessages);
  return (
    <select
      className="gc-Rank"
      aria-label={trans.__('Where the curve is read')}
      value={props.source}
      onChange={event => {
        props.onChange(event.target.value as CurveSource);
      }}
    >
      {props.sources.map(source => (
        <option key={source} value={source}>
          {msg.curveSource(source)}
        </option>
      ))}
    </select>
  );
}

/** The drawing is made for the width it has, so that its text keeps its size. */
function useWidth(): [React.RefObject<HTMLDivElement>, number] {
  const node = React.useRef<HTMLDivElement>(null);
  const [width, setWidth] = React.useState(460);
  React.useEffect(() => {
    if (node.current === null) {
      return;
    }
    const observer = new ResizeObserver(entries => {
      const inner = entries[0]?.contentRect.width ?? 0;
      if (inner > 0) {
        setWidth(Math.round(inner));
      }
    });
    observer.observe(node.current);
    return () => {
      observer.disconnect();
    };
  }, []);
  return [node, width];
}

/** What the points count, as their newest says. */
function unitOf(points: readonly ICurvePoint[]): string {
  return stepWord(points.at(-1));
}

function Chart(props: {
  points: readonly ICurvePoint[];
  width: number;
}): React.JSX.Element {
  const { msg, trans } = usePanel();
  const box: IBox = {
    width: props.width,
    height: HEIGHT,
    left: 44,
    right: 52,
    top: 26,
    bottom: 34
  };
  const view = curveView(props.points, box);
  const floor = box.height - box.bottom;
  const ends = view.series
    .map(series => `${series.name} ${series.end.label}`)
    .join(', ');
  return (
    <svg
      viewBox={`0 0 ${box.width} ${box.height}`}
      width={box.width}
      height={box.height}
      role="img"
      aria-label={trans.__(
        'Metrics over %1 %2 to %3; newest: %4',
        msg.unit(unitOf(props.points)),
        view.firstStep,
        view.lastStep,
        ends
      )}
    >
      <g className="gc-Curve-grid">
        {view.series[0]?.ticks.map(tick => (
          <path
            key={tick.at}
            d={`M${box.left} ${tick.at}H${box.width - box.right}`}
          />
        ))}
        <path
          d={`M${box.left} ${box.top}V${floor}H${box.width - box.right}V${box.top}`}
        />
      </g>
      {view.attempts.map(attempt => (
        <g key={attempt.number} className="gc-Curve-attempt">
          <path d={`M${attempt.x} ${box.top - 10}V${floor}`} />
          <text x={attempt.x} y={box.top - 14}>
            {msg.attempt(attempt.number)}
          </text>
        </g>
      ))}
      <g className="gc-Curve-steps">
        {view.steps.map(tick => (
          <text key={tick.at} x={tick.at} y={floor + 14}>
            {tick.label}
          </text>
        ))}
        <text x={(box.left + box.width - box.right) / 2} y={box.height - 4}>
          {msg.unit(unitOf(props.points))}
        </text>
      </g>
      {view.series.map((series, index) => (
        <Series
          key={series.name}
          series={series}
          tone={TONES[index] ?? ''}
          axisX={index === 0 ? box.left - 6 : box.width - box.right + 6}
        />
      ))}
    </svg>
  );
}

function Series(props: {
  series: ISeries;
  tone: string;
  axisX: number;
}): React.JSX.Element {
  const { series } = props;
  const nameX = series.end.x - 4;
  return (
    <g className={`gc-Curve-series gc-mod-${props.tone}`}>
      {series.ticks.map(tick => (
        <text key={tick.at} className="gc-Tick" x={props.axisX} y={tick.at + 3}>
          {tick.label}
        </text>
      ))}
      {series.paths.map(path => (
        <path
          key={path.d}
          d={path.d}
          className={path.lost ? 'gc-mod-lost' : ''}
        />
      ))}
      <circle cx={series.end.x} cy={series.end.y} r={2.5} />
      <text className="gc-End" x={nameX} y={series.end.labelY}>
        {series.name} {series.end.label}
      </text>
    </g>
  );
}
