/**
 * Parts whose code comes when they are first drawn, so that Lab starts with little of it. What does
 * not come says so: the server may be away, or hold another version than this page was opened with.
 */
import * as React from 'react';

import { usePanel } from './context';
import { h } from './h';
import { Callout, LinkButton } from './parts';

/** A component of a chunk of its own; `load` imports it and may be called again where it failed. */
export function chunk<P extends object>(
  load: () => Promise<React.ComponentType<P>>
): React.FunctionComponent<P> {
  let Loaded: React.ComponentType<P> | null = null;
  return function Chunk(props: P) {
    const { msg } = usePanel();
    const [hasFailed, setFailed] = React.useState(false);
    const [, redraw] = React.useReducer((count: number) => count + 1, 0);
    const fetch = React.useCallback(() => {
      setFailed(false);
      load().then(
        component => {
          Loaded = component;
          redraw();
        },
        () => {
          setFailed(true);
        }
      );
    }, []);
    React.useEffect(() => {
      if (Loaded === null) {
        fetch();
      }
    }, [fetch]);
    if (Loaded !== null) {
      return <Loaded {...props} />;
    }
    return hasFailed ? (
      <NotLoaded retry={fetch} />
    ) : (
      <p className="gc-Muted gc-Chunk">{msg.loading()}</p>
    );
  };
}

function NotLoaded(props: { retry: () => void }): React.JSX.Element {
  const { msg, trans } = usePanel();
  return (
    <Callout tone="error">
      {msg.partNotLoaded()}{' '}
      <LinkButton onClick={props.retry}>{trans.__('Try again')}</LinkButton>{' '}
      <LinkButton
        onClick={() => {
          window.location.reload();
        }}
      >
        {msg.reload()}
      </LinkButton>
    </Callout>
  );
}
