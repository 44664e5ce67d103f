/** *My GPU*: what this notebook's slice is, and what it really does. */
import type * as React from 'react';

import { chunk } from '../components/chunk';
import { Fragment, h } from '../components/h';

import { gpus, percent } from '../text/format';
import { CommandIDs } from '../lab/ids';
import { idleLine, KEEP_MINUTES } from '../model/idle';
import { ILease, IUsageSample } from '../server/types';
import { spark } from '../model/usage';
import { useNow, usePanel, useTopics } from '../components/context';
import {
  ActionButton,
  Bar,
  Callout,
  LinkButton,
  Pill,
  Section
} from '../components/parts';

const Parked = chunk(() =>
  import(/* webpackChunkName: "page-lostkernels" */ './parked').then(
    m => m.Parked
  )
);

const WIDTH = 260;
const HEIGHT = 44;

/** JupyterLab's own command; it is there where a hub started this server. */
const HUB_HOME = 'hub:control-panel';

export function MyGpu(): React.JSX.Element {
  const { model, msg, trans } = usePanel();
  useTopics(model, ['status', 'lease', 'usage']);
  const { lease, usage } = model;
  const hasTile =
    Boolean(lease?.slice ?? lease?.parked_ms) || usage.last !== null;
  const isCpu = !hasTile && model.connection !== 'connecting';
  return (
    <Section
      id="my-gpu"
      title={trans.__('My GPU')}
      aside={
        <>
          {isCpu ? <Pill>{msg.cpuOnly()}</Pill> : null}
          {model.isSimulated ? <Pill>{trans.__('simulated')}</Pill> : null}
        </>
      }
    >
      {lease?.parked_ms ? (
        <Parked lease={lease} />
      ) : hasTile ? (
        <Tile lease={lease} />
      ) : null}
      {lease?.idle?.can_park ? <Parked lease={lease} /> : null}
      {hasTile ? null : (
        <p className="gc-Muted">
          {isCpu
            ? model.connection === 'none'
              ? msg.noGpu()
              : msg.cpuOnlyWhy()
            : msg.connecting()}
        </p>
      )}
      {isCpu ? <HubLink /> : null}
      {model.sharedAccount ? (
        <Callout tone="info">{msg.sharedAccount()}</Callout>
      ) : null}
    </Section>
  );
}

/** To where a server is started anew; nothing where no hub started this one. */
export function HubLink(): React.JSX.Element | null {
  const { msg, commands } = usePanel();
  return commands.hasCommand(HUB_HOME) ? (
    <LinkButton
      onClick={() => {
        void commands.execute(HUB_HOME);
      }}
    >
      {msg.chooseGpu()}
    </LinkButton>
  ) : null;
}

function Tile({ lease }: { lease: ILease | null }): React.JSX.Element {
  const { model, msg } = usePanel();
  const now = useNow(model);
  const slice = lease?.slice;
  const last = model.usage.state === 'ok' ? model.usage.last : null;
  // Nobody reads the GPU any more, and nothing is left to count down to.
  if ((model.gone ?? model.returnedAfterMs) !== null) {
    return (
      <p className="gc-Tile gc-Muted">
        {model.gone === null
          ? // When, the hub tells: what was announced is no time of a stop.
            msg.returned()
          : msg.stoppedTitle(model.gone)}
      </p>
    );
  }
  return (
    <div className="gc-Tile">
      {slice ? (
        <div className="gc-Row">
          <span className="gc-Big">{gpus(slice.milli_gpu)}</span>
          <span>
            {msg.ofKind(slice.gpu_kind)}
            <br />
            <span className="gc-Muted">{slice.node}</span>
          </span>
        </div>
      ) : null}
      {slice ? (
        <p className="gc-Muted">
          {msg.isolation(last?.isolation ?? slice.isolation)}
        </p>
      ) : null}
      {last ? (
        <Usage sample={last} now={now} />
      ) : (
        <div className="gc-Tile-empty">
          <Pill>{msg.noGpuData()}</Pill>
          <p className="gc-Muted">{slice?.trouble ?? msg.noGpuDataWhy()}</p>
        </div>
      )}
      {lease?.idle &&
      (model.connection === 'ok' || (lease.idle.returns_ms ?? 0) > now) ? (
        <p className={lease.state === 'warned' ? 'gc-Warn' : 'gc-Muted'}>
          {idleLine(lease.idle, now, msg)}
        </p>
      ) : null}
      {lease?.state === 'warned' && model.connection === 'ok' ? (
        <WarnedActions left={lease.idle?.keeps_left ?? 0} />
      ) : null}
    </div>
  );
}

/** What the notice offers, for as long as its countdown runs: it may have been closed. */
function WarnedActions({ left }: { left: number }): React.JSX.Element {
  const { model, msg, commands } = usePanel();
  const action = (command: string, label: string, isPrimary = false) => (
    <ActionButton
      isPrimary={isPrimary}
      onClick={() => {
        void commands.execute(command);
      }}
    >
      {label}
    </ActionButton>
  );
  return (
    <div className="gc-Row gc-Buttons">
      {left > 0
        ? action(CommandIDs.keepGpu, msg.keepMore(KEEP_MINUTES, left), true)
        : null}
      {model.canHibernate
        ? action(CommandIDs.hibernate, msg.hibernate())
        : null}
      {action(CommandIDs.dropGpu, msg.dropToCpu())}
      {action(CommandIDs.trainNotebook, msg.turnIntoJob())}
    </div>
  );
}

function Usage({
  sample,
  now
}: {
  sample: IUsageSample;
  now: number;
}): React.JSX.Element {
  const { model, msg, trans } = usePanel();
  const { compute_percent: compute, memory_used_mib: used } = sample;
  const limit = sample.memory_limit_mib;
  const isOver = used !== null && used > limit;
  const { line, area } = spark(model.usage.samples, WIDTH, HEIGHT);
  const [usedText, ofText] = msg.memoryOf(used ?? 0, limit);
  return (
    <div className={model.usage.isStale(now) ? 'gc-mod-stale' : ''}>
      <div className="gc-Row gc-Tile-line">
        <span className="gc-Muted">{trans.__('Memory')}</span>
        <span className="gc-Number">
          {used === null ? (
            trans.__('no reading')
          ) : (
            <>
              <b>{usedText}</b> {ofText}
            </>
          )}
        </span>
      </div>
      <Bar
        label={trans.__('Memory')}
        parts={[
          {
            percent: percent(used ?? 0, limit),
            tone: isOver ? 'error' : 'fixed'
          }
        ]}
      />
      {isOver ? <p className="gc-Error">{msg.overMemory(limit)}</p> : null}
      {sample.notice ? (
        <p className="gc-Warn" role="status">
          {sample.notice}{' '}
          {sample.stops_ms ? msg.stopsIn(sample.stops_ms - now) : null}
        </p>
      ) : null}
      <div className="gc-Row gc-Tile-line">
        <span className="gc-Muted">{trans.__('Compute, last 5 min')}</span>
        <span className="gc-Number">
          {compute === null ? (
            trans.__('no reading')
          ) : (
            <b>{String(compute)} %</b>
          )}
        </span>
      </div>
      <svg
        className="gc-Spark"
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={msg.computeLabel(compute)}
      >
        <path className="gc-Spark-area" d={area} />
        <path className="gc-Spark-line" d={line} />
      </svg>
      <p className="gc-Muted">{msg.contention(sample.contention)}</p>
    </div>
  );
}
