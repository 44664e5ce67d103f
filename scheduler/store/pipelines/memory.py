"""Pipelines without a disk: for tests, simulation and replays."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import islice

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
from gpucommons.scheduler.store.schedules.base import Epoch, changed_meanwhile


class MemoryPipelines:
    """See :class:`.base.PipelineStore`. ``check_lead`` raises for an epoch that is over."""

    def __init__(self, check_lead: Callable[[Epoch], None]) -> None:
        self._check_lead = check_lead
        self._lock = threading.Lock()
        self._kept: dict[PipelineId, tuple[Piped, Millis | None]] = {}

    def put(
        self,
        pipeline: Pipeline,
        *,
        next_ms: Millis | None,
        before: Pipeline | None = None,
        most: int | None = None,
    ) -> None:
        """Add one, or replace what was written before."""
        with self._lock:
            known = self._kept.get(pipeline.pipeline_id)
            if before != (None if known is None else known[0].pipeline):
                raise changed_meanwhile(pipeline.name)
            if any(_is_namesake(pipeline, one.pipeline) for one, _ in self._kept.values()):
                raise name_taken(pipeline)
            if known is None and most is not None:
                self._make_room(pipeline.owner, most)
            standing = Standing() if known is None else known[0].standing
            piped = Piped(pipeline=pipeline, standing=standing)
            self._kept[pipeline.pipeline_id] = (piped, next_ms)

    def of(self, owner: UserName) -> tuple[Piped, ...]:
        """Oldest first."""
        return tuple(one for one in reversed(self._newest()) if one.pipeline.owner == owner)

    def page(self, sight: Sight, *, before: PipelineId | None, limit: int) -> tuple[Piped, ...]:
        """Newest first."""
        found = (
            one
            for one in self._newest()
            if sight.sees(one.pipeline.team, one.pipeline.owner)
            and (before is None or one.pipeline.pipeline_id < before)
        )
        return tuple(islice(found, limit))

    def due(self, now_ms: Millis) -> tuple[Piped, ...]:
        """Soonest first."""
        with self._lock:
            found = [
                (at, one) for one, at in self._kept.values() if at is not None and at <= now_ms
            ]
        return tuple(one for _, one in sorted(found, key=lambda item: item[0]))

    def stand(
        self, epoch: Epoch, piped: Piped, standing: Standing, *, next_ms: Millis | None
    ) -> bool:
        """Write where one stands."""
        pipeline_id = piped.pipeline.pipeline_id
        with self._lock:
            self._check_lead(epoch)
            if pipeline_id not in self._kept:
                return False
            known, at = self._kept[pipeline_id]
            same = known.pipeline == piped.pipeline
            stands = Piped(pipeline=known.pipeline, standing=standing)
            self._kept[pipeline_id] = (stands, next_ms if same else at)
            return same

    def needed(self, *, ended_since_ms: Millis) -> frozenset[str]:
        """Of all that are not over for long."""
        found = [snapshots_of(one, ended_since_ms=ended_since_ms) for one in self._newest()]
        return frozenset().union(*found)

    def drop(self, pipeline_id: PipelineId) -> None:
        """Forget one."""
        with self._lock:
            self._kept.pop(pipeline_id, None)

    def _make_room(self, owner: UserName, most: int) -> None:
        mine = sorted(
            (one.pipeline.pipeline_id, next_ms)
            for one, next_ms in self._kept.values()
            if one.pipeline.owner == owner
        )
        over = [pipeline_id for pipeline_id, next_ms in mine if next_ms is None]
        if len(mine) >= most and not over:
            raise too_many(len(mine))
        if len(mine) >= most:
            del self._kept[over[0]]

    def _newest(self) -> list[Piped]:
        with self._lock:
            found = [one for one, _ in self._kept.values()]
        return sorted(found, key=lambda one: one.pipeline.pipeline_id, reverse=True)


def _is_namesake(one: Pipeline, other: Pipeline) -> bool:
    same_name = (one.owner, one.name) == (other.owner, other.name)
    return same_name and one.pipeline_id != other.pipeline_id
