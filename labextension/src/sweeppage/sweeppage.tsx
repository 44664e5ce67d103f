/** The page of sweeps: a list of them, and one with its charts and trials. */
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import * as React from 'react';

import { usePanel, useTopics, useWords } from '../components/context';
import { h } from '../components/h';
import { useLooked } from '../components/polling';
import { Callout, LinkButton } from '../components/parts';
import { Standing } from '../panel/panel';
import { ISweep, sweepsOf } from '../server/sweeps';
import { clock } from '../text/format';
import { RendererContext } from './chart';
import { sweepMessages } from './messages';
import { OneSweep } from './onesweep';

const REFRESH_MS = 5000;

export function SweepPage(props: {
  /** The one that was asked for, by its id. */
  wanted: string | null;
  /** What Lab draws charts with; null where it has nothing for that. */
  renderers: Promise<IRenderMimeRegistry | null>;
}): React.JSX.Element {
  const { model, trans } = usePanel();
  const msg = useWords(sweepMessages);
  useTopics(model, ['status']);
  const [shown, setShown] = React.useState(props.wanted);
  // The list is asked for apart: one and the same sweep stands in both as it was seen last.
  const [looked, setLooked] = React.useState<ISweep | null>(null);
  const [older, setOlder] = React.useState<ISweep[]>([]);
  const [registry, setRegistry] = React.useState<IRenderMimeRegistry | null>(
    null
  );
  const { wanted, renderers } = props;
  React.useEffect(() => {
    setShown(wanted);
  }, [wanted]);
  React.useEffect(() => {
    void renderers.then(setRegistry);
  }, [renderers]);
  const list = useLooked(
    React.useCallback(() => sweepsOf(model.api), [model]),
    REFRESH_MS
  );
  const newest = list.found?.sweeps ?? [];
  const ids = new Set(newest.map(each => each.id));
  const all = [...newest, ...older.filter(each => !ids.has(each.id))].map(
    each => (each.id === looked?.id ? looked : each)
  );
  const [cursor, setCursor] = React.useState<string | null | undefined>();
  const next = cursor === undefined ? (list.found?.cursor ?? null) : cursor;
  const ref = shown ?? newest[0]?.id ?? null;
  return (
    <RendererContext.Provider value={registry}>
      <div className="gc-JobPage">
        <Standing />
        {list.problem !== null && model.connection === 'ok' ? (
          <Callout tone="error">{list.problem}</Callout>
        ) : null}
        {list.found?.sweeps.length === 0 && shown === null ? (
          <p className="gc-Muted">{msg.none()}</p>
        ) : null}
        <div className={model.connection === 'ok' ? '' : 'gc-mod-stale'}>
          {ref === null ? null : (
            <OneSweep key={ref} sweep={ref} onLook={setLooked} />
          )}
          {all.length === 0 ? null : <h2>{trans.__('All sweeps')}</h2>}
          <table className="gc-Runs gc-Sweeps">
            {all.length === 0 ? null : (
              <thead>
                <tr>
                  <th scope="col">{trans.__('Sweep')}</th>
                  <th scope="col">{trans.__('State')}</th>
                  <th scope="col">{trans.__('Begun')}</th>
                  <th scope="col">{trans.__('Best')}</th>
                  <th scope="col">{trans.__('Team and owner')}</th>
                  <th scope="col">{trans.__('Made')}</th>
                </tr>
              </thead>
            )}
            <tbody>
              {all.map(each => (
                <tr key={each.id} aria-current={each.id === ref || undefined}>
                  <td>
                    <LinkButton
                      onClick={() => {
                        setShown(each.id);
                      }}
                    >
                      {each.name}
                    </LinkButton>
                  </td>
                  <td>{msg.sweepState(each)}</td>
                  <td>{msg.begun(each)}</td>
                  <td>{each.best == null ? '' : msg.best(each, each.best)}</td>
                  <td className="gc-Muted">{`${each.team} · ${each.owner}`}</td>
                  <td className="gc-Muted">{clock(each.made_ms)}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {next === null ? null : (
            <LinkButton
              onClick={() => {
                void sweepsOf(model.api, next).then(
                  page => {
                    setOlder([...older, ...page.sweeps]);
                    setCursor(page.cursor ?? null);
                  },
                  () => undefined // the page says why with its next look
                );
              }}
            >
              {trans.__('Older ones')}
            </LinkButton>
          )}
        </div>
      </div>
    </RendererContext.Provider>
  );
}
