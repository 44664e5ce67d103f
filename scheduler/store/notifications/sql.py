"""Choices and messages in SQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, delete, func, or_, select, update

from gpucommons.scheduler.core.model.types import Millis, UserName
from gpucommons.scheduler.errors import ChosenMeanwhile
from gpucommons.scheduler.notifications.preferences import (
    Channel,
    Choice,
    Fate,
    Notification,
    Reading,
)
from gpucommons.scheduler.store.codec import decode, encode
from gpucommons.scheduler.store.schedules.base import Epoch
from gpucommons.scheduler.store.sql.intents import insert_into
from gpucommons.scheduler.store.sql.transactions import Transactions
from gpucommons.scheduler.store.tables import (
    notification_choices,
    notification_reading,
    notifications,
)

#: There is one reader.
_ONE = 1


class SqlNotifications:
    """See :class:`.base.NotificationStore`."""

    def __init__(self, transactions: Transactions) -> None:
        self._in = transactions

    def choose(
        self, choice: Choice, *, before: Choice, messages: Sequence[Notification] = ()
    ) -> None:
        """In place of what was seen: the row must be as it was read here when it is written."""
        with self._in.writing() as connection:
            known = connection.execute(_document_of(choice.owner)).scalar_one_or_none()
            seen = Choice(owner=choice.owner) if known is None else decode(Choice, known)
            if seen != before or not _replaced(connection, choice, known):
                raise ChosenMeanwhile
            _add(connection, messages)

    def choice(self, owner: UserName) -> Choice | None:
        """Of one user."""
        found = self._in.read(lambda c: c.execute(_document_of(owner)).scalar_one_or_none())
        return None if found is None else decode(Choice, found)

    def choices(self) -> tuple[Choice, ...]:
        """By name."""
        asked = select(notification_choices.c.document)
        rows = self._in.read(lambda c: c.execute(asked).scalars().all())
        # Each database sorts texts its own way.
        return tuple(sorted((decode(Choice, row) for row in rows), key=lambda one: one.owner))

    def reading(self) -> Reading | None:
        """How far was read."""
        asked = select(notification_reading.c.document)
        found = self._in.read(lambda c: c.execute(asked).scalar_one_or_none())
        return None if found is None else decode(Reading, found)

    def add(self, messages: Sequence[Notification]) -> None:
        """Those that are not there yet."""
        with self._in.writing() as connection:
            _add(connection, messages)

    def read(self, epoch: Epoch, reading: Reading, messages: Sequence[Notification]) -> None:
        """Both at once."""
        with self._in.leading(epoch) as connection:
            _add(connection, messages)
            statement = insert_into(connection)(notification_reading)
            connection.execute(
                statement.on_conflict_do_update(
                    index_elements=[notification_reading.c.reader],
                    set_={"document": statement.excluded.document},
                ),
                [{"reader": _ONE, "document": encode(reading)}],
            )

    def due(
        self,
        now_ms: Millis,
        *,
        limit: int,
        besides: Collection[tuple[UserName, Channel]] = (),
    ) -> tuple[Notification, ...]:
        """Oldest first."""
        of = notifications.c
        order = (of.next_ms, of.notification_id)
        others = [or_(of.owner != owner, of.channel != way.value) for owner, way in besides]
        asked = select(of.document).where(of.next_ms <= now_ms, *others)
        return self._messages(asked.order_by(*order).limit(limit))

    def settle(self, epoch: Epoch, messages: Sequence[Notification]) -> None:
        """In place of what was known."""
        with self._in.leading(epoch) as connection:
            for one in messages:
                mine = notifications.c.notification_id == one.notification_id
                connection.execute(update(notifications).where(mine).values(_values(one)))

    def waiting(self) -> Mapping[tuple[UserName, Channel], int]:
        """By user and channel."""
        return self._counted(notifications.c.fate == Fate.WAITING.value)

    def made(self, since_ms: Millis) -> Mapping[tuple[UserName, Channel], int]:
        """By user and channel."""
        of = notifications.c
        return self._counted(of.made_ms >= since_ms, of.fate != Fate.DROPPED.value)

    def newest(self, owner: UserName, *, limit: int) -> tuple[Notification, ...]:
        """Newest first."""
        of = notifications.c
        order = (of.made_ms.desc(), of.notification_id.desc())
        return self._messages(
            select(of.document).where(of.owner == owner).order_by(*order).limit(limit)
        )

    def forget(self, owner: UserName) -> int:
        """All of one user."""
        with self._in.writing() as connection:
            mine = delete(notifications).where(notifications.c.owner == owner)
            return connection.execute(mine).rowcount

    def drop(self, epoch: Epoch, *, before_ms: Millis) -> int:
        """Those that are older."""
        with self._in.leading(epoch) as connection:
            old = delete(notifications).where(notifications.c.made_ms < before_ms)
            return connection.execute(old).rowcount

    def _counted(self, *where: ColumnElement[bool]) -> Mapping[tuple[UserName, Channel], int]:
        of = notifications.c
        asked = (
            select(of.owner, of.channel, func.count().label("count"))
            .where(*where)
            .group_by(of.owner, of.channel)
        )
        rows = self._in.read(lambda c: c.execute(asked).all())
        return {(UserName(row[0]), Channel(row[1])): int(row[2]) for row in rows}

    def _messages(self, asked: Select[Any]) -> tuple[Notification, ...]:
        rows = self._in.read(lambda c: c.execute(asked).scalars().all())
        return tuple(decode(Notification, row) for row in rows)


def _values(one: Notification) -> dict[str, Any]:
    return {"fate": one.fate.value, "next_ms": one.next_ms, "document": encode(one)}


def _document_of(owner: UserName) -> Select[str]:
    return select(notification_choices.c.document).where(notification_choices.c.owner == owner)


def _replaced(connection: Connection, choice: Choice, known: str | None) -> bool:
    """Whether the row was still what is known of it: no replica came in between."""
    of, document = notification_choices.c, encode(choice)
    if known is None:
        made = insert_into(connection)(notification_choices)
        row = {"owner": choice.owner, "document": document}
        kept = made.values(row).on_conflict_do_nothing().returning(of.owner)
        return connection.execute(kept).scalar_one_or_none() is not None
    same = (of.owner == choice.owner, of.document == known)
    change = update(notification_choices).where(*same).values(document=document)
    return connection.execute(change).rowcount == 1


def _add(connection: Connection, messages: Sequence[Notification]) -> None:
    rows = [
        {
            "notification_id": one.notification_id,
            "owner": one.telling.owner,
            "channel": one.channel.value,
            "made_ms": one.made_ms,
            **_values(one),
        }
        for one in messages
    ]
    if rows:
        statement = insert_into(connection)(notifications)
        connection.execute(statement.on_conflict_do_nothing(), rows)
