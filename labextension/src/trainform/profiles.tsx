/** What a team starts its jobs with: chosen above the form, published from it by who leads the team. */
import * as React from 'react';

import { usePanel, useWords } from '../components/context';
import { Fragment, h } from '../components/h';
import { ActionButton, LinkButton } from '../components/parts';
import { told } from '../server/api';
import { asSentence } from '../text/format';
import {
  IProfile,
  profilesOf,
  publishProfile,
  removeProfile
} from '../server/profiles';
import { keyOf, leaving, profileOf, taking } from '../submission/profile';
import type { TrainModel } from '../submission/train';
import { marksOf, Mistake, SelectField } from './fields';
import { NAME, trainMessages } from './messages';

const NAME_FIELD = 'gc-profile-name';

/** So often at most: whoever moves over the form looks each time. */
const AGAIN_MS = 5000;

/** Those of the user's teams; null until they are known. Looked at again by who comes back to the form. */
export function useProfiles(): {
  profiles: IProfile[] | null;
  /** At once. */
  look: () => void;
  /** Unless it was done just now. */
  again: () => void;
} {
  const { train } = usePanel();
  const [profiles, setProfiles] = React.useState<IProfile[] | null>(null);
  const looked = React.useRef(0);
  const look = React.useCallback(() => {
    looked.current = Date.now();
    profilesOf(train.api).then(setProfiles, () => {
      // Without them the form is as it was.
    });
  }, [train]);
  React.useEffect(look, [look]);
  const again = React.useCallback(() => {
    if (Date.now() - looked.current >= AGAIN_MS) {
      look();
    }
  }, [look]);
  return { profiles, look, again };
}

/** With a profile, or with none. What a trial has filled in is nothing to come back to. */
export function startWith(train: TrainModel, profile?: IProfile): void {
  train.endTrial();
  train.start(profile ? taking(profile, train.form) : leaving(train.form));
}

export function ProfileField(props: {
  profiles: readonly IProfile[] | null;
}): React.JSX.Element | null {
  const { train, trans } = usePanel();
  const msg = useWords(trainMessages);
  const { form } = train;
  const profiles = props.profiles ?? [];
  const chosen = profiles.find(each => keyOf(each) === form.profile?.key);
  const teams = new Set(profiles.map(each => each.team));
  // They may decide which code runs in the name of whoever submits, and no field shows them.
  const variables = Object.entries(chosen?.job.env ?? {}).map(
    ([name, value]) => `${name}=${value}`
  );
  if (profiles.length === 0) {
    return null;
  }
  return (
    <>
      <SelectField
        id="gc-profile"
        label={trans.__('Profile')}
        value={chosen ? keyOf(chosen) : ''}
        options={[
          { value: '', label: trans.__('None') },
          ...profiles.map(each => ({
            value: keyOf(each),
            label: teams.size > 1 ? keyOf(each) : each.name
          }))
        ]}
        onChange={key => {
          startWith(
            train,
            profiles.find(each => keyOf(each) === key)
          );
        }}
      />
      {chosen ? (
        <p className="gc-Muted gc-Hint">
          {asSentence(chosen.description)}{' '}
          {msg.publishedBy(chosen.published_by)}
        </p>
      ) : null}
      {variables.length > 0 ? (
        <p className="gc-Muted gc-Hint">
          {msg.setsVariables()} <Words>{variables.join(' ')}</Words>
        </p>
      ) : null}
      {chosen?.callback_line ? (
        <p className="gc-Muted gc-Hint">
          {msg.oneLine()} <Words>{chosen.callback_line}</Words>
        </p>
      ) : null}
    </>
  );
}

/** Breaks anywhere: the name of a module is wider than the panel, which would scroll sideways. */
function Words({ children }: { children: string }): React.JSX.Element {
  return <code style={{ overflowWrap: 'anywhere' }}>{children}</code>;
}

/** For who leads a team, or is an admin. */
export function PublishProfile(props: {
  profiles: readonly IProfile[] | null;
  onChange: () => void;
}): React.JSX.Element | null {
  const { model, train, trans } = usePanel();
  const msg = useWords(trainMessages);
  const { form } = train;
  const { whoami } = model;
  const profiles = props.profiles ?? [];
  const current = profiles.find(each => keyOf(each) === form.profile?.key);
  const teams = whoami?.admin
    ? [...new Set([...whoami.teams, ...(whoami.leads ?? [])])]
    : (whoami?.leads ?? []);
  const team = form.team || (teams.length === 1 ? teams[0] : '') || '';
  const [name, setName] = React.useState('');
  const [description, setDescription] = React.useState('');
  const [said, setTold] = React.useState<string | null>(null);
  if (teams.length === 0) {
    return null;
  }
  const isKnown = profiles.some(
    each => each.team === team && each.name === name
  );
  const mistake = name === '' || NAME.test(name) ? null : msg.nameLikeThis();
  return (
    <details className="gc-Field">
      <summary>{trans.__('Publish as a profile of the team')}</summary>
      <label htmlFor={NAME_FIELD}>{trans.__('Name of the profile')}</label>
      <input
        {...marksOf(NAME_FIELD, mistake)}
        value={name}
        spellCheck={false}
        onChange={event => {
          setName(event.target.value);
        }}
      />
      <Mistake of={NAME_FIELD} text={mistake} />
      <label htmlFor="gc-profile-text">{trans.__('What it is good for')}</label>
      <input
        id="gc-profile-text"
        className="jp-mod-styled gc-Input"
        value={description}
        onChange={event => {
          setDescription(event.target.value);
        }}
      />
      <ActionButton
        hindrance={
          teams.includes(team)
            ? NAME.test(name)
              ? null
              : msg.nameLikeThis()
            : msg.chooseTeam()
        }
        onClick={() => {
          void say(
            publishProfile(train.api, team, name, {
              description,
              job: profileOf(form)
            }),
            made => msg.published(made.name, made.team)
          );
        }}
      >
        {isKnown ? trans.__('Publish anew') : trans.__('Publish')}
      </ActionButton>{' '}
      {current?.steerable ? (
        <LinkButton
          onClick={() => {
            void say(removeProfile(train.api, current), gone =>
              msg.unpublished(gone.name, gone.team)
            );
          }}
        >
          {trans.__('Remove %1', current.name)}
        </LinkButton>
      ) : null}
      <p className="gc-Hint" role="status">
        {said}
      </p>
    </details>
  );

  async function say(
    asked: Promise<IProfile>,
    words: (found: IProfile) => string
  ): Promise<void> {
    try {
      setTold(words(await asked));
    } catch (error) {
      setTold(told(error));
    }
    props.onChange();
  }
}
