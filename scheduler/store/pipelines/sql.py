"""Pipelines in SQL: owners and the leader write columns of their own."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, delete, exc, insert, or_, select, update

from gpucommons.scheduler.core.model.types import Millis, UserName
from gpucommons.scheduler.pipelines.pipeline import (
    Piped,
    Pipeline,
    PipelineId,
    Standing,
    too_many,
)
from gpucommons.scheduler.principal import Sight
from gpucommons.scheduler.store.codec import decode, encode
from gpucommons.scheduler.store.pipelines.base import name_taken, snapshots_of
from gpucommons.scheduler.store.schedules.base import Epoch, changed_meanwhile
from gpucommons.scheduler.store.sql.intents import take_turn
from gpucommons.scheduler.store.sql.transactions import Transactions
from gpucommons.scheduler.store.tables import pipelines


class SqlPipelines:
    """See :class:`.base.PipelineStore`."""

    def __init__(self, transactions: Transactions) -> None:
        self._in = transactions

    def put(
        self,
        pipeline: Pipeline,
        *,
        next_ms: Millis | None,
        before: Pipeline | None = None,
        most: int | None = None,
    ) -> None:
        """Add one, or replace what was written before."""
        values: dict[str, Any] = {
            "owner": pipeline.owner,
            "name": pipeline.name,
            "team": pipeline.team,
            "document": encode(pipeline),
            "next_ms": next_ms,
        }
        mine = pipelines.c.pipeline_id == pipeline.pipeline_id
        new = {"pipeline_id": pipeline.pipeline_id, "standing": encode(Standing())}
        try:
            with self._in.writing() as connection:
                if _written(connection, mine) != before:
                    raise changed_meanwhile(pipeline.name)
                if before is None:
                    if most is not None:
                        _make_room(connection, pipeline.owner, most)
                    connection.execute(insert(pipelines).values(values | new))
                else:
                    connection.execute(update(pipelines).where(mine).values(values))
        except exc.IntegrityError:
            raise name_taken(pipeline) from None

    def of(self, owner: UserName) -> tuple[Piped, ...]:
        """Oldest first."""
        mine = pipelines.c.owner == owner
        return self._read(select(pipelines).where(mine).order_by(pipelines.c.pipeline_id))

    def page(self, sight: Sight, *, before: PipelineId | None, limit: int) -> tuple[Piped, ...]:
        """Newest first."""
        statement = select(pipelines).order_by(pipelines.c.pipeline_id.desc()).limit(limit)
        if before is not None:
            statement = statement.where(pipelines.c.pipeline_id < before)
        if sight.teams is not None:
            seen = (pipelines.c.team.in_(sorted(sight.teams)), pipelines.c.owner == sight.owner)
            statement = statement.where(or_(*seen))
        return self._read(statement)

    def due(self, now_ms: Millis) -> tuple[Piped, ...]:
        """Soonest first."""
        at = pipelines.c.next_ms
        return self._read(select(pipelines).where(at <= now_ms).order_by(at))

    def stand(
        self, epoch: Epoch, piped: Piped, standing: Standing, *, next_ms: Millis | None
    ) -> bool:
        """Write where one stands."""
        mine = pipelines.c.pipeline_id == piped.pipeline.pipeline_id
        with self._in.leading(epoch) as connection:
            same = _written(connection, mine) == piped.pipeline
            values: dict[str, Any] = {"standing": encode(standing)}
            if same:
                values["next_ms"] = next_ms
            connection.execute(update(pipelines).where(mine).values(values))
        return same

    def needed(self, *, ended_since_ms: Millis) -> frozenset[str]:
        """Of all that are not over for long."""
        found = self._read(select(pipelines))
        return frozenset().union(
            *(snapshots_of(one, ended_since_ms=ended_since_ms) for one in found)
        )

    def drop(self, pipeline_id: PipelineId) -> None:
        """Forget one."""
        with self._in.writing() as connection:
            connection.execute(delete(pipelines).where(pipelines.c.pipeline_id == pipeline_id))

    def _read(self, statement: Select[Any]) -> tuple[Piped, ...]:
        rows = self._in.read(lambda connection: connection.execute(statement).mappings().all())
        return tuple(
            Piped(
                pipeline=decode(Pipeline, row["document"]),
                standing=decode(Standing, row["standing"]),
            )
            for row in rows
        )


def _make_room(connection: Connection, owner: UserName, most: int) -> None:
    """For one more, which nobody else takes until the commit."""
    take_turn(connection, owner)
    columns = (pipelines.c.pipeline_id, pipelines.c.next_ms)
    mine = select(*columns).where(pipelines.c.owner == owner).order_by(pipelines.c.pipeline_id)
    found = connection.execute(mine).all()
    if len(found) < most:
        return
    over = next((one.pipeline_id for one in found if one.next_ms is None), None)
    if over is None:
        raise too_many(len(found))
    connection.execute(delete(pipelines).where(pipelines.c.pipeline_id == over))


def _written(connection: Connection, mine: ColumnElement[bool]) -> Pipeline | None:
    """What its owner wrote, kept as it is until the commit; None where it is not there.

    By value: an earlier release may have written it with fewer fields.
    """
    written = select(pipelines.c.document).where(mine).with_for_update()
    document = connection.execute(written).scalar_one_or_none()
    return None if document is None else decode(Pipeline, document)
