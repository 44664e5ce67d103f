"""The contract of stores with those who keep pipelines, with a disk and without."""

from __future__ import annotations

from typing import Protocol

from gpucommons.scheduler.core.model.types import Millis, UserName
from gpucommons.scheduler.errors import Conflict
from gpucommons.scheduler.pipelines.pipeline import Piped, Pipeline, PipelineId, Standing
from gpucommons.scheduler.principal import Sight
from gpucommons.scheduler.store.schedules.base import Epoch


class PipelineStore(Protocol):
    """Durable memory of pipelines. All methods may be called from any thread."""

    def put(
        self,
        pipeline: Pipeline,
        *,
        next_ms: Millis | None,
        before: Pipeline | None = None,
        most: int | None = None,
    ) -> None:
        """Add one, or replace what was written ``before`` (any replica).

        Where its owner has so many (``most``) already, however many requests come at once, the oldest
        that is over makes room: one that is not to be looked at again.

        Raises
        ------
        PolicyRefused
            Where none of them is over.
        Conflict
            Where the owner has another one of that name, or ``before`` is not what is there now.
        """
        ...

    def of(self, owner: UserName) -> tuple[Piped, ...]:
        """One owner's, oldest first."""
        ...

    def page(
        self,
        sight: Sight,
        *,
        before: PipelineId | None,
        limit: int,
        name: str | None = None,
    ) -> tuple[Piped, ...]:
        """Those that somebody sees, newest first; older than ``before``, and of that ``name`` alone."""
        ...

    def due(self, now_ms: Millis) -> tuple[Piped, ...]:
        """Those whose ``next_ms`` has come, soonest first."""
        ...

    def stand(
        self, epoch: Epoch, piped: Piped, standing: Standing, *, next_ms: Millis | None
    ) -> bool:
        """Write where one stands (the leader); its owner's changes meanwhile keep their ``next_ms``.

        Returns whether it is still as it was read: not changed or dropped since.

        Raises
        ------
        LeaderLost
            When another leads.
        """
        ...

    def needed(self, *, ended_since_ms: Millis) -> frozenset[str]:
        """Snapshots of steps whose pipeline is not over, or ended since then."""
        ...

    def drop(self, pipeline_id: PipelineId) -> None:
        """Forget one; its jobs stay (any replica)."""
        ...


def name_taken(pipeline: Pipeline) -> Conflict:
    """The refusal of a second one of that name."""
    message = f"{pipeline.owner} has a pipeline {pipeline.name} already: try again."
    return Conflict(message)


def snapshots_of(piped: Piped, *, ended_since_ms: Millis) -> frozenset[str]:
    """What the steps of one need, unless it ended before."""
    ended_ms = piped.standing.ended_ms
    if ended_ms is not None and ended_ms < ended_since_ms:
        return frozenset()
    found = (step.snapshot for step in piped.pipeline.steps)
    return frozenset(one for one in found if one is not None)
