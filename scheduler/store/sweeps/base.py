"""The contract of stores with those who keep sweeps, with a disk and without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gpucommons.scheduler.core.model.types import Millis, UserName
from gpucommons.scheduler.parents import ParentId
from gpucommons.scheduler.principal import Sight
from gpucommons.scheduler.store.schedules.base import Epoch
from gpucommons.scheduler.sweeps.sweep import Kept, Sweep, Trial


class SweepStore(Protocol):
    """Durable memory of sweeps. All methods may be called from any thread."""

    def put(self, sweep: Sweep, *, before: Sweep | None = None, most: int | None = None) -> None:
        """Add one, or replace what was written ``before``: it is then looked at again (any replica).

        Raises
        ------
        PolicyRefused
            Where the owner has so many (``most``) others that go on, however many requests come at once.
        Conflict
            Where ``before`` is not what is there now.
        """
        ...

    def one(self, sweep_id: ParentId) -> Kept | None:
        """One sweep."""
        ...

    def named(self, name: str) -> tuple[Kept, ...]:
        """Those of all teams that have this name, newest first."""
        ...

    def page(
        self,
        sight: Sight,
        *,
        before: Kept | None,
        limit: int,
        owner: UserName | None = None,
        live: bool = False,
    ) -> tuple[Kept, ...]:
        """Those that somebody sees, newest first; older than ``before``, of one ``owner``, and only those
        that go on (``live``), where that is asked for.
        """
        ...

    def live(self) -> tuple[Kept, ...]:
        """Those to look at: not over, or written since they were; oldest first."""
        ...

    def size_bytes(self, owner: UserName, *, since_ms: Millis) -> int:
        """How long what somebody has submitted since then is together."""
        ...

    def trials(self, sweep_id: ParentId) -> tuple[Trial, ...]:
        """A sweep's trials, by number."""
        ...

    def stand(self, epoch: Epoch, kept: Kept, trials: Sequence[Trial]) -> None:
        """Write where a sweep stands, with trials that are new or changed, in one transaction (the
        leader). What its owner wrote since ``kept.sweep`` was read makes it looked at again.

        Raises
        ------
        LeaderLost
            When another leads.
        """
        ...

    def needed(self, *, ended_since_ms: Millis) -> frozenset[str]:
        """Snapshots of those that are not over, or ended since then: more jobs may come of them."""
        ...

    def prune(self, epoch: Epoch, *, before_ms: Millis) -> None:
        """Forget with their trials those that ended before; their jobs stay (the leader).

        Raises
        ------
        LeaderLost
            When another leads.
        """
        ...
