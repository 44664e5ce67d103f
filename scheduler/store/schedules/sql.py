"""Schedules in SQL: owners and the leader write columns of their own."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    delete,
    exc,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)

from gpucommons.scheduler.core.model.types import Millis, UserName, WorkloadId
from gpucommons.scheduler.principal import Sight
from gpucommons.scheduler.schedules.promoting import promoted_jobs
from gpucommons.scheduler.schedules.schedule import (
    Schedule,
    Scheduled,
    ScheduleId,
    Standing,
    too_many,
)
from gpucommons.scheduler.store.codec import decode, encode
from gpucommons.scheduler.store.schedules.base import (
    Epoch,
    changed_meanwhile,
    name_taken,
)
from gpucommons.scheduler.store.sql.intents import take_turn
from gpucommons.scheduler.store.sql.transactions import Transactions
from gpucommons.scheduler.store.tables import schedules


class SqlSchedules:
    """See :class:`.base.ScheduleStore`."""

    def __init__(self, transactions: Transactions) -> None:
        self._in = transactions

    def put(
        self,
        schedule: Schedule,
        *,
        next_ms: Millis | None,
        before: Schedule | None = None,
        most: int | None = None,
    ) -> None:
        """Add one, or replace what was written before."""
        values: dict[str, Any] = {
            "owner": schedule.owner,
            "name": schedule.name,
            "team": schedule.team,
            "document": encode(schedule),
            "next_ms": next_ms,
        }
        mine = schedules.c.schedule_id == schedule.schedule_id
        new = {"schedule_id": schedule.schedule_id, "standing": encode(Standing())}
        try:
            with self._in.writing() as connection:
                if _written(connection, mine) != before:
                    raise changed_meanwhile(schedule.name)
                if before is None:
                    if most is not None:
                        _check_count(connection, schedule.owner, most)
                    connection.execute(insert(schedules).values(values | new))
                else:
                    connection.execute(update(schedules).where(mine).values(values))
        except exc.IntegrityError:
            raise name_taken(schedule) from None

    def all(self, owner: UserName | None = None) -> tuple[Scheduled, ...]:
        """By owner and name."""
        statement = select(schedules).order_by(schedules.c.owner, schedules.c.name)
        return self._read(
            statement if owner is None else statement.where(schedules.c.owner == owner)
        )

    def promoted(self) -> frozenset[WorkloadId]:
        """Jobs whose models are promoted; most schedules promote nothing, and are not read."""
        by_hand = schedules.c.document.contains('"chosen":{')
        by_rule = schedules.c.standing.contains('"promoted":{')
        return promoted_jobs(self._read(select(schedules).where(or_(by_hand, by_rule))))

    def page(self, sight: Sight, *, after: tuple[str, str], limit: int) -> tuple[Scheduled, ...]:
        """By owner and name."""
        key = (schedules.c.owner, schedules.c.name)
        statement = select(schedules).where(tuple_(*key) > after).order_by(*key).limit(limit)
        if sight.teams is not None:
            seen = (schedules.c.team.in_(sorted(sight.teams)), schedules.c.owner == sight.owner)
            statement = statement.where(or_(*seen))
        return self._read(statement)

    def due(self, now_ms: Millis) -> tuple[Scheduled, ...]:
        """Soonest first."""
        at = schedules.c.next_ms
        return self._read(select(schedules).where(at <= now_ms).order_by(at))

    def stand(
        self, epoch: Epoch, scheduled: Scheduled, standing: Standing, *, next_ms: Millis | None
    ) -> bool:
        """Write where one stands."""
        mine = schedules.c.schedule_id == scheduled.schedule.schedule_id
        with self._in.leading(epoch) as connection:
            same = _written(connection, mine) == scheduled.schedule
            values: dict[str, Any] = {"standing": encode(standing)}
            if same:
                values["next_ms"] = next_ms
            connection.execute(update(schedules).where(mine).values(values))
        return same

    def drop(self, schedule_id: ScheduleId) -> None:
        """Forget one."""
        with self._in.writing() as connection:
            connection.execute(delete(schedules).where(schedules.c.schedule_id == schedule_id))

    def _read(self, statement: Select[Any]) -> tuple[Scheduled, ...]:
        rows = self._in.read(lambda connection: connection.execute(statement).mappings().all())
        return tuple(
            Scheduled(
                schedule=decode(Schedule, row["document"]),
                standing=decode(Standing, row["standing"]),
            )
            for row in rows
        )


def _check_count(connection: Connection, owner: UserName, most: int) -> None:
    """Room for one more, which nobody else takes until the commit."""
    take_turn(connection, owner)
    of_owner = select(func.count()).select_from(schedules).where(schedules.c.owner == owner)
    count = connection.execute(of_owner).scalar_one()
    if count >= most:
        raise too_many(owner, count)


def _written(connection: Connection, mine: ColumnElement[bool]) -> Schedule | None:
    """What its owner wrote, kept as it is until the commit; None where it is not there.

    By value: an earlier release may have written it with fewer fields.
    """
    written = select(schedules.c.document).where(mine).with_for_update()
    document = connection.execute(written).scalar_one_or_none()
    return None if document is None else decode(Schedule, document)
