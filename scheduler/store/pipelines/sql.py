"""Pipelines in SQL: owners and the leader write columns of their own."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Select, delete, or_, select

from gpucommons.scheduler.core.model.types import Millis, UserName
from gpucommons.scheduler.pipelines.pipeline import (
    Piped,
    Pipeline,
    PipelineId,
    Standing,
    too_many,
)
from gpucommons.scheduler.principal import Sight
from gpucommons.scheduler.store.pipelines.base import name_taken, snapshots_of
from gpucommons.scheduler.store.schedules.base import Epoch
from gpucommons.scheduler.store.sql.intents import take_turn
from gpucommons.scheduler.store.sql.owner_documents import OwnerDocuments
from gpucommons.scheduler.store.sql.transactions import Transactions
from gpucommons.scheduler.store.tables import pipelines


class SqlPipelines:
    """See :class:`.base.PipelineStore`."""

    def __init__(self, transactions: Transactions) -> None:
        self._rows = OwnerDocuments(
            transactions, pipelines, document=Pipeline, standing=Standing, name_taken=name_taken
        )

    def put(
        self,
        pipeline: Pipeline,
        *,
        next_ms: Millis | None,
        before: Pipeline | None = None,
        most: int | None = None,
    ) -> None:
        """Add one, or replace what was written before."""
        self._rows.put(
            pipeline.pipeline_id,
            pipeline,
            next_ms=next_ms,
            before=before,
            check_count=lambda connection: _make_room(connection, pipeline.owner, most),
        )

    def of(self, owner: UserName) -> tuple[Piped, ...]:
        """Oldest first."""
        mine = pipelines.c.owner == owner
        return self._read(select(pipelines).where(mine).order_by(pipelines.c.pipeline_id))

    def page(
        self,
        sight: Sight,
        *,
        before: PipelineId | None,
        limit: int,
        name: str | None = None,
    ) -> tuple[Piped, ...]:
        """Newest first."""
        statement = select(pipelines).order_by(pipelines.c.pipeline_id.desc()).limit(limit)
        if name is not None:
            statement = statement.where(pipelines.c.name == name)
        if before is not None:
            statement = statement.where(pipelines.c.pipeline_id < before)
        if sight.teams is not None:
            seen = (pipelines.c.team.in_(sorted(sight.teams)), pipelines.c.owner == sight.owner)
            statement = statement.where(or_(*seen))
        return self._read(statement)

    def due(self, now_ms: Millis) -> tuple[Piped, ...]:
        """Soonest first."""
        return tuple(_piped(*one) for one in self._rows.due(now_ms))

    def stand(
        self, epoch: Epoch, piped: Piped, standing: Standing, *, next_ms: Millis | None
    ) -> bool:
        """Write where one stands."""
        pipeline = piped.pipeline
        return self._rows.stand(epoch, pipeline.pipeline_id, pipeline, standing, next_ms=next_ms)

    def needed(self, *, ended_since_ms: Millis) -> frozenset[str]:
        """Of all that are not over for long."""
        found = self._read(select(pipelines))
        return frozenset().union(
            *(snapshots_of(one, ended_since_ms=ended_since_ms) for one in found)
        )

    def drop(self, pipeline_id: PipelineId) -> None:
        """Forget one."""
        self._rows.drop(pipeline_id)

    def _read(self, statement: Select[Any]) -> tuple[Piped, ...]:
        return tuple(_piped(*one) for one in self._rows.read(statement))


def _piped(pipeline: Pipeline, standing: Standing) -> Piped:
    return Piped(pipeline=pipeline, standing=standing)


def _make_room(connection: Connection, owner: UserName, most: int | None) -> None:
    """For one more, which nobody else takes until the commit."""
    if most is None:
        return
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
