/** *My team*: what the team holds of its fixed and guaranteed quota, and what it borrows. */
import type * as React from 'react';

import { Fragment, h } from '../components/h';

import { ITeam } from '../server/types';
import { IShare, teamBars } from '../model/team';
import { usePanel, useTopics } from '../components/context';
import { Bar, Section } from '../components/parts';

export function MyTeam(): React.JSX.Element {
  const { model, trans } = usePanel();
  useTopics(model, ['teams', 'status']);
  const teams = model.myTeams;
  const only = teams.length === 1 ? teams[0] : undefined;
  return (
    <Section
      id="my-team"
      title={only?.name ?? trans.__('My teams')}
      aside={<span className="gc-Muted">{trans.__('GPUs')}</span>}
    >
      {teams.map(team => (
        <Team key={team.name} team={team} isNamed={!only} />
      ))}
      {teams.length === 0 ? (
        <p className="gc-Muted">
          {model.teams === null
            ? trans.__('No data yet.')
            : trans.__('You are in no team. An admin can add you to one.')}
        </p>
      ) : null}
    </Section>
  );
}

function Team(props: { team: ITeam; isNamed: boolean }): React.JSX.Element {
  const { msg, trans } = usePanel();
  const { notebooks, training, waiting, pools } = teamBars(props.team);
  return (
    <div className="gc-Team" title={pools.join(', ')}>
      {props.isNamed ? <h3>{props.team.name}</h3> : null}
      {notebooks ? (
        <Quota
          label={trans.__('Notebooks')}
          words={msg.usedOfFixed(notebooks.used, notebooks.quota)}
          share={notebooks}
          tone="fixed"
        />
      ) : null}
      {training ? (
        <Quota
          label={trans.__('Training')}
          words={
            <>
              {msg.usedOf(training.used, training.quota)}
              {training.borrowed > 0 ? (
                <b> {msg.plusBorrowed(training.borrowed)}</b>
              ) : null}
            </>
          }
          share={training}
          tone="guaranteed"
        />
      ) : null}
      {!notebooks && !training ? (
        <p className="gc-Muted">
          {trans.__('This team has no GPU quota yet.')}
        </p>
      ) : null}
      {waiting > 0 ? <p className="gc-Muted">{msg.waiting(waiting)}</p> : null}
    </div>
  );
}

function Quota(props: {
  label: string;
  words: React.ReactNode;
  share: IShare;
  tone: string;
}): React.JSX.Element {
  return (
    <>
      <div className="gc-Row">
        <span>{props.label}</span>
        <span className="gc-Number">{props.words}</span>
      </div>
      <Bar
        label={props.label}
        mark={props.share.quotaPercent}
        parts={[
          { percent: props.share.usedPercent, tone: props.tone },
          { percent: props.share.borrowedPercent, tone: 'borrow' }
        ]}
      />
    </>
  );
}
