"""Profiles in SQL."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, delete, func, select

from gpucommons.scheduler.core.model.types import UserName
from gpucommons.scheduler.profiles import MAX_PROFILES, Profile, too_many
from gpucommons.scheduler.store.codec import decode, encode
from gpucommons.scheduler.store.sql.intents import insert_into, take_turn
from gpucommons.scheduler.store.sql.transactions import Transactions
from gpucommons.scheduler.store.tables import profiles


class SqlProfiles:
    """See :class:`.base.ProfileStore`."""

    def __init__(self, transactions: Transactions) -> None:
        self._in = transactions

    def put(self, profile: Profile) -> None:
        """Add or replace."""
        row = {"team": profile.team, "name": profile.name, "document": encode(profile)}
        with self._in.writing() as connection:
            _check_count(connection, profile)
            statement = insert_into(connection)(profiles).values(row)
            key = [profiles.c.team, profiles.c.name]
            replaced = {"document": statement.excluded.document}
            connection.execute(statement.on_conflict_do_update(index_elements=key, set_=replaced))

    def all(self, teams: Collection[str] | None = None) -> tuple[Profile, ...]:
        """By team and name."""
        found = select(profiles.c.document).order_by(profiles.c.team, profiles.c.name)
        if teams is not None:
            found = found.where(profiles.c.team.in_(sorted(teams)))
        rows = self._in.read(lambda connection: connection.execute(found).scalars().all())
        return tuple(decode(Profile, row) for row in rows)

    def drop(self, team: str, name: str) -> None:
        """Forget one."""
        mine = (profiles.c.team == team, profiles.c.name == name)
        with self._in.writing() as connection:
            connection.execute(delete(profiles).where(*mine))


def _check_count(connection: Connection, profile: Profile) -> None:
    """Room for it, which nobody else takes until the commit."""
    take_turn(connection, UserName(f"profiles of {profile.team}"))
    others = (profiles.c.team == profile.team, profiles.c.name != profile.name)
    of_team = select(func.count()).select_from(profiles).where(*others)
    if connection.execute(of_team).scalar_one() >= MAX_PROFILES:
        raise too_many(profile.team)
