/**
 * A worker's log, live. Lines are text nodes, appended by hand: React would compare thousands of
 * rows for every line that comes.
 */
import * as React from 'react';

import { h } from '../components/h';

import { FollowedJob } from '../followed';
import { isFinal } from '../jobs';
import { usePanel, useSignal } from '../components/context';
import { LinkButton } from '../components/parts';

/** So close to the end counts as "at the end". */
const NEAR_PX = 24;

export function LogView(props: {
  followed: FollowedJob;
  workers: number;
}): React.JSX.Element {
  const { model, msg, trans } = usePanel();
  const { followed } = props;
  const [isFollowing, setFollowing] = React.useState(true);
  useSignal(followed.changed);
  // The log of a job that is over comes a moment after its page.
  const emptyWords = () =>
    !followed.job || !isFinal(followed.job)
      ? trans.__('Nothing printed yet.')
      : followed.log.ended
        ? trans.__('Nothing was printed.')
        : msg.loading();
  return (
    <div className="gc-Box gc-Log">
      <div className="gc-Row">
        <h2>{trans.__('Log')}</h2>
        <span className="gc-Row gc-Right gc-Muted">
          {props.workers > 1 ? (
            <RankSelect followed={followed} workers={props.workers} />
          ) : null}
          {followed.job && isFinal(followed.job) ? null : (
            <LinkButton
              onClick={() => {
                setFollowing(!isFollowing);
              }}
            >
              {isFollowing ? trans.__('Pause scrolling') : trans.__('Follow')}
            </LinkButton>
          )}
        </span>
      </div>
      {followed.log.dropped > 0 ? (
        <p className="gc-Muted">
          {trans.__(
            '%1 older lines are not shown.',
            String(followed.log.dropped)
          )}
        </p>
      ) : null}
      <Lines
        followed={followed}
        isFollowing={isFollowing}
        setFollowing={setFollowing}
      />
      {followed.log.lines.length === 0 ? (
        <p className="gc-Muted">
          {model.connection === 'ok' ? emptyWords() : msg.notLoaded()}
        </p>
      ) : null}
    </div>
  );
}

function RankSelect(props: {
  followed: FollowedJob;
  workers: number;
}): React.JSX.Element {
  const { trans } = usePanel();
  return (
    <select
      className="gc-Rank"
      aria-label={trans.__('Worker whose log is shown')}
      value={props.followed.rank}
      onChange={event => {
        props.followed.follow(Number(event.target.value));
      }}
    >
      {Array.from({ length: props.workers }, (_, rank) => (
        <option key={rank} value={rank}>
          {trans.__('rank %1', rank)}
        </option>
      ))}
    </select>
  );
}

function Lines(props: {
  followed: FollowedJob;
  isFollowing: boolean;
  setFollowing: (following: boolean) => void;
}): React.JSX.Element {
  const { trans } = usePanel();
  const { followed, isFollowing, setFollowing } = props;
  const node = React.useRef<HTMLPreElement>(null);
  React.useEffect(() => {
    const pre = node.current;
    if (pre !== null) {
      syncLines(pre, followed.log.lines);
      if (isFollowing) {
        pre.scrollTop = pre.scrollHeight;
      }
    }
  });
  return (
    <pre
      ref={node}
      className="gc-Log-lines"
      tabIndex={0}
      role="log"
      aria-live="off"
      aria-label={trans.__('Log')}
      onScroll={event => {
        const { scrollHeight, scrollTop, clientHeight } = event.currentTarget;
        const isAtEnd = scrollHeight - scrollTop - clientHeight < NEAR_PX;
        if (isAtEnd !== isFollowing) {
          setFollowing(isAtEnd);
        }
      }}
    />
  );
}

/** Make the node's rows those of the buffer, touching only what differs at both ends. */
export function syncLines(
  node: HTMLElement,
  lines: FollowedJob['log']['lines']
): void {
  const firstId = lines[0]?.id ?? Infinity;
  while (
    node.firstElementChild !== null &&
    rowId(node.firstElementChild) < firstId
  ) {
    node.firstElementChild.remove();
  }
  const lastId =
    node.lastElementChild === null ? -1 : rowId(node.lastElementChild);
  const fresh = document.createDocumentFragment();
  for (const line of lines) {
    if (line.id > lastId) {
      const row = document.createElement('div');
      row.dataset['id'] = String(line.id);
      row.textContent = line.text === '' ? '\u00a0' : line.text;
      row.className = line.isAttempt ? 'gc-Log-attempt' : '';
      fresh.append(row);
    }
  }
  node.append(fresh);
}

function rowId(row: Element): number {
  return Number((row as HTMLElement).dataset['id']);
}
