"""The contract of stores with those who keep schedules, with a disk and without."""

from __future__ import annotations

from typing import NewType, Protocol

from gpucommons.scheduler.core.model.types import Millis, UserName, WorkloadId
from gpucommons.scheduler.errors import Conflict
from gpucommons.scheduler.principal import Sight
from gpucommons.scheduler.schedules.schedule import (
    Schedule,
    Scheduled,
    ScheduleId,
    Standing,
)

#: Grows with every change of leader.
Epoch = NewType("Epoch", int)


class ScheduleStore(Protocol):
    """Durable memory of schedules. All methods may be called from any thread."""

    def put(
        self,
        schedule: Schedule,
        *,
        next_ms: Millis | None,
        before: Schedule | None = None,
        most: int | None = None,
    ) -> None:
        """Add a schedule, or replace what was written ``before`` (any replica).

        Raises
        ------
        PolicyRefused
            Where the owner has so many (``most``) already, however many requests come at once.
        Conflict
            Where the owner has another one of that name, or ``before`` is not what is there now.
        """
        ...

    def all(self, owner: UserName | None = None) -> tuple[Scheduled, ...]:
        """All schedules, or one owner's, by owner and name."""
        ...

    def promoted(self) -> frozenset[WorkloadId]:
        """Jobs whose models are promoted now."""
        ...

    def page(
        self, sight: Sight, *, after: tuple[str, str], limit: int, name: str | None = None
    ) -> tuple[Scheduled, ...]:
        """Those that somebody sees behind this owner and name, by both; of that ``name`` alone."""
        ...

    def due(self, now_ms: Millis) -> tuple[Scheduled, ...]:
        """Those whose ``next_ms`` has come, soonest first."""
        ...

    def stand(
        self, epoch: Epoch, scheduled: Scheduled, standing: Standing, *, next_ms: Millis | None
    ) -> bool:
        """Write where one stands (the leader); its owner's changes meanwhile keep their ``next_ms``.

        Returns whether it is still as it was read: not rewritten, suspended or removed since.

        Raises
        ------
        LeaderLost
            When another leads.
        """
        ...

    def drop(self, schedule_id: ScheduleId) -> None:
        """Forget one; its jobs stay (any replica)."""
        ...


def name_taken(schedule: Schedule) -> Conflict:
    """The refusal of a second one of that name."""
    message = f"{schedule.owner} has a schedule {schedule.name} already: choose another name."
    return Conflict(message)


def changed_meanwhile(what: str) -> Conflict:
    """The refusal of a change to what is not there any more as it was looked at."""
    message = f"{what} was changed or removed meanwhile: look at it, and try again."
    return Conflict(message)
