/**
 * A job's log, live: a worker's, or those of all in the order in which they come. Lines are text nodes, appended by hand: React would compare thousands of
 * rows for every line that comes.
 */
import * as React from 'react';

import { h } from '../components/h';

import { FollowedJob } from '../model/followed';
import { currentAttempt, isFinal } from '../model/jobs';
import { type ILogLine, MOST_IN_ONE } from '../model/log';
import { Rank } from '../server/types';
import { usePanel, useSignal, useWords } from '../components/context';
import { LinkButton } from '../components/parts';
import { jobMessages, type JobMessages } from './messages';

/** So close to the end counts as "at the end". */
const NEAR_PX = 24;
/** More workers are chosen from a list. */
const MOST_BUTTONS = 8;

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
            <RankChoice followed={followed} workers={props.workers} />
          ) : null}
          {!followed.job || currentAttempt(followed.job) === null ? null : (
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

/** All workers' lines in one, or those of one. */
function RankChoice(props: {
  followed: FollowedJob;
  workers: number;
}): React.JSX.Element {
  const { trans } = usePanel();
  const { followed, workers } = props;
  const label = trans.__('Worker whose log is shown');
  const all = workers > MOST_IN_ONE ? [] : [null];
  const ranks: Rank[] = [...all, ...Array(workers).keys()];
  const name = (rank: Rank) => (rank === null ? trans.__('all') : String(rank));
  if (workers > MOST_BUTTONS) {
    return (
      <select
        className="gc-Rank"
        aria-label={label}
        value={followed.rank ?? 'all'}
        onChange={event => {
          const { value } = event.target;
          followed.follow(value === 'all' ? null : Number(value));
        }}
      >
        {ranks.map(rank => (
          <option key={name(rank)} value={rank ?? 'all'}>
            {rank === null
              ? trans.__('all workers')
              : trans.__('worker %1', rank)}
          </option>
        ))}
      </select>
    );
  }
  return (
    <span className="gc-Ranks" role="group" aria-label={label}>
      <span>{trans.__('worker')}</span>
      {ranks.map(rank => (
        <button
          key={name(rank)}
          type="button"
          aria-pressed={rank === followed.rank}
          onClick={() => {
            followed.follow(rank);
          }}
        >
          {name(rank)}
        </button>
      ))}
    </span>
  );
}

function Lines(props: {
  followed: FollowedJob;
  isFollowing: boolean;
  setFollowing: (following: boolean) => void;
}): React.JSX.Element {
  const { trans } = usePanel();
  const msg = useWords(jobMessages);
  const { followed, isFollowing, setFollowing } = props;
  const node = React.useRef<HTMLPreElement>(null);
  React.useEffect(() => {
    const pre = node.current;
    if (pre !== null) {
      syncLines(pre, followed.log.lines, line => textOf(line, msg));
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

/** A line as it is shown: among several workers' it begins with whose it is. */
export function textOf(line: ILogLine, msg: JobMessages): string {
  if (line.rank === undefined) {
    return line.text;
  }
  return `${line.rank} │ ${line.folded ? msg.foldedLines(line.folded) : line.text}`;
}

/** Make the node's rows those of the buffer, touching only what differs at both ends. */
export function syncLines(
  node: HTMLElement,
  lines: FollowedJob['log']['lines'],
  text: (line: ILogLine) => string = line => line.text
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
      row.textContent = text(line) || '\u00a0';
      row.className = line.isAttempt
        ? 'gc-Log-attempt'
        : line.folded
          ? 'gc-Muted'
          : '';
      fresh.append(row);
    }
  }
  node.append(fresh);
}

function rowId(row: Element): number {
  return Number((row as HTMLElement).dataset['id']);
}
