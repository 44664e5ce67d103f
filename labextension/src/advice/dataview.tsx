/** Whether the job waits for its data, and one button that sets what would help, for its next attempt. */
import { UUID } from '@lumino/coreutils';
import * as React from 'react';

import { usePanel } from '../components/context';
import { h } from '../components/h';
import { ActionButton, Callout, LinkButton } from '../components/parts';
import { useLooked } from '../components/polling';
import { CommandIDs } from '../lab/ids';
import { canRunAgain, maySteer } from '../model/jobs';
import { nextKey } from '../server/api';
import type { IDataAdvice, ILoaderSettings } from '../server/plans';
import type { IJob } from '../server/types';
import { useAttempt } from './attempt';
import { dataView, workersText } from './dataloading';

/** Progress comes every few seconds; what it says of the data changes slowly. */
const LOOK_EVERY_MS = 15_000;
const HONOURED = 'GPUCOMMONS_LOADER_WORKERS, GPUCOMMONS_LOADER_PREFETCH';

export function DataView({ job }: { job: IJob }): React.JSX.Element | null {
  const { commands, model, msg, trans } = usePanel();
  const { isBusy, problem, attempt } = useAttempt();
  const ask = React.useCallback(
    () =>
      model.api.request<IDataAdvice>('GET', ['api', 'jobs', job.id, 'data']),
    [model, job.id]
  );
  const key = React.useRef(UUID.uuid4());
  const wish = React.useRef('');
  const { found, look } = useLooked(ask, LOOK_EVERY_MS);
  const may = {
    steer: maySteer(job, model.whoami),
    // Of a teammate's job too it would be the reader's own: that belongs to the menu, which says so.
    runAgain: job.owner === model.whoami?.name && canRunAgain(job)
  };
  const view = found && dataView(found, may, msg);
  if (!view) {
    return null;
  }
  const choose = (settings: ILoaderSettings) =>
    attempt(async () => {
      const path = ['api', 'jobs', job.id, 'data'];
      await model.api.request('POST', path, settings);
      await look();
    });
  const runAgain = (settings: ILoaderSettings) =>
    attempt(async () => {
      const [workers, ahead] = [settings.workers ?? 0, settings.prefetch];
      const query = `?loader_workers=${workers}&loader_prefetch=${ahead}`;
      if (query !== wish.current) {
        // Other advice is another wish.
        wish.current = query;
        key.current = UUID.uuid4();
      }
      const next = await model.api
        .again(job.id, query, key.current)
        .catch((error: unknown) => {
          key.current = nextKey(key.current, error);
          throw error;
        });
      key.current = UUID.uuid4();
      model.add(next);
      await commands.execute(CommandIDs.openJob, { job: next.id });
    });
  const { applies, runsAgain } = view;
  const isBound = found.verdict === 'bound';
  return (
    <section className="gc-Data" aria-label={trans.__('Data')}>
      <Callout tone={isBound ? 'borrow' : 'info'}>
        {view.finding}{' '}
        {applies ? (
          <ActionButton
            isBusy={isBusy}
            describedBy="gc-data-honoured"
            onClick={() => {
              void choose(applies);
            }}
          >
            {trans.__('Apply to the next attempt')}
          </ActionButton>
        ) : null}
        {runsAgain ? (
          <ActionButton
            isBusy={isBusy}
            describedBy="gc-data-honoured"
            onClick={() => {
              void runAgain(runsAgain);
            }}
          >
            {trans.__(
              'Run again with %1',
              workersText(runsAgain.workers ?? 0, runsAgain.prefetch, msg)
            )}
          </ActionButton>
        ) : null}
        {view.chosen ? (
          <p>
            {view.chosen}{' '}
            {view.takesBack ? (
              <LinkButton
                onClick={() => {
                  void choose({ workers: null, prefetch: 2 });
                }}
              >
                {trans.__('As the script says')}
              </LinkButton>
            ) : null}
          </p>
        ) : null}
        {problem}
        {view.hints.map(hint => (
          <p key={hint}>{hint}</p>
        ))}
        <p className="gc-Muted" id="gc-data-honoured">
          {[
            view.source,
            applies || runsAgain || view.chosen
              ? trans.__(
                  'Set on torch’s data loaders before their first batch (%1); what runs goes on as it began.',
                  HONOURED
                )
              : ''
          ]
            .join(' ')
            .trim()}
        </p>
      </Callout>
    </section>
  );
}
