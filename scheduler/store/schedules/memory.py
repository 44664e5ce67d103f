"""Schedules without a disk: for tests, simulation and replays."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import islice

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
from gpucommons.scheduler.store.schedules.base import Epoch, changed_meanwhile, name_taken


class MemorySchedules:
    """See :class:`.base.ScheduleStore`. ``check_lead`` raises for an epoch that is over."""

    def __init__(self, check_lead: Callable[[Epoch], None]) -> None:
        self._check_lead = check_lead
        self._lock = threading.Lock()
        self._kept: dict[ScheduleId, tuple[Scheduled, Millis | None]] = {}

    def put(
        self,
        schedule: Schedule,
        *,
        next_ms: Millis | None,
        before: Schedule | None = None,
        most: int | None = None,
    ) -> None:
        """Add one, or replace what was written before."""
        with self._lock:
            known = self._kept.get(schedule.schedule_id)
            if before != (None if known is None else known[0].schedule):
                raise changed_meanwhile(schedule.name)
            if any(_is_namesake(schedule, one.schedule) for one, _ in self._kept.values()):
                raise name_taken(schedule)
            owner = schedule.owner
            count = sum(one.schedule.owner == owner for one, _ in self._kept.values())
            if known is None and most is not None and count >= most:
                raise too_many(owner, count)
            standing = Standing() if known is None else known[0].standing
            scheduled = Scheduled(schedule=schedule, standing=standing)
            self._kept[schedule.schedule_id] = (scheduled, next_ms)

    def all(self, owner: UserName | None = None) -> tuple[Scheduled, ...]:
        """By owner and name."""
        with self._lock:
            found = [one for one, _ in self._kept.values() if owner in (None, one.schedule.owner)]
        return tuple(sorted(found, key=lambda one: (one.schedule.owner, one.schedule.name)))

    def promoted(self) -> frozenset[WorkloadId]:
        """Jobs whose models are promoted."""
        return promoted_jobs(self.all())

    def page(self, sight: Sight, *, after: tuple[str, str], limit: int) -> tuple[Scheduled, ...]:
        """By owner and name."""
        found = (one for one in self.all() if sight.sees(one.schedule.team, one.schedule.owner))
        behind = (one for one in found if (one.schedule.owner, one.schedule.name) > after)
        return tuple(islice(behind, limit))

    def due(self, now_ms: Millis) -> tuple[Scheduled, ...]:
        """Soonest first."""
        with self._lock:
            found = [
                (at, one) for one, at in self._kept.values() if at is not None and at <= now_ms
            ]
        return tuple(one for _, one in sorted(found, key=lambda item: item[0]))

    def stand(
        self, epoch: Epoch, scheduled: Scheduled, standing: Standing, *, next_ms: Millis | None
    ) -> bool:
        """Write where one stands."""
        schedule_id = scheduled.schedule.schedule_id
        with self._lock:
            self._check_lead(epoch)
            if schedule_id not in self._kept:
                return False
            known, at = self._kept[schedule_id]
            same = known.schedule == scheduled.schedule
            stands = Scheduled(schedule=known.schedule, standing=standing)
            self._kept[schedule_id] = (stands, next_ms if same else at)
            return same

    def drop(self, schedule_id: ScheduleId) -> None:
        """Forget one."""
        with self._lock:
            self._kept.pop(schedule_id, None)


def _is_namesake(one: Schedule, other: Schedule) -> bool:
    same_name = (one.owner, one.name) == (other.owner, other.name)
    return same_name and one.schedule_id != other.schedule_id
