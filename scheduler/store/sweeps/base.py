"""The contract of stores with those who keep sweeps; memory and SQL pass the same suite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gpucommons.scheduler.core.model.types import UserName
from gpucommons.scheduler.parents import ParentId
from gpucommons.scheduler.store.schedules.base import Epoch
from gpucommons.scheduler.sweeps.sweep import Kept, Sweep, Trial


class SweepStore(Protocol):
    """Durable memory of sweeps. All methods may be called from any thread."""

    def put(self, sweep: Sweep) -> None:
        """Add one, or replace what its owner wrote: it is then looked at again (any replica)."""
        ...

    def one(self, sweep_id: ParentId) -> Kept | None:
        """One sweep."""
        ...

    def all(self, owner: UserName | None = None) -> tuple[Kept, ...]:
        """All sweeps, or one owner's, newest first."""
        ...

    def live(self) -> tuple[Kept, ...]:
        """Those to look at: not over, or written since they were; oldest first."""
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

    def drop(self, sweep_id: ParentId) -> None:
        """Forget one with its trials; its jobs stay (any replica)."""
        ...
