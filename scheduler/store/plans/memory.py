"""Plans without a disk: for tests, simulation and replays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from gpucommons.scheduler.core.model.types import Millis, WorkloadId
from gpucommons.scheduler.plans import ChosenPlan
from gpucommons.scheduler.store.plans.base import EVER, MANY, JudgedRun
from gpucommons.scheduler.store.schedules.base import Epoch


class MemoryPlans:
    """See :class:`.base.PlanStore`. ``check_lead`` raises for an epoch that is over."""

    def __init__(self, check_lead: Callable[[Epoch], None]) -> None:
        self._check_lead = check_lead
        self._lock = threading.Lock()
        self._offered: dict[str, ChosenPlan] = {}
        self._runs: dict[WorkloadId, JudgedRun] = {}

    def offer(self, plans: Sequence[ChosenPlan]) -> None:
        """Keep what was answered."""
        with self._lock:
            self._offered |= {one.plan_id: one for one in plans}

    def offered(self, plan_id: str) -> ChosenPlan | None:
        """By its id."""
        with self._lock:
            return self._offered.get(plan_id)

    def judge(self, epoch: Epoch, runs: Sequence[JudgedRun]) -> None:
        """Add or replace."""
        with self._lock:
            self._check_lead(epoch)
            self._runs |= {one.workload_id: one for one in runs}

    def run(self, workload_id: WorkloadId) -> JudgedRun | None:
        """By its workload."""
        with self._lock:
            return self._runs.get(workload_id)

    def runs(self, *, since_ms: Millis = EVER, limit: int = MANY) -> tuple[JudgedRun, ...]:
        """Oldest first."""
        with self._lock:
            found = [one for one in self._runs.values() if one.ended_ms >= since_ms]
        found.sort(key=lambda one: (one.ended_ms, one.workload_id))
        return tuple(found[max(0, len(found) - limit) :])

    def drop(self, epoch: Epoch, *, offered_before_ms: Millis, ended_before_ms: Millis) -> int:
        """Forget what is older."""
        with self._lock:
            self._check_lead(epoch)
            before = len(self._offered) + len(self._runs)
            self._offered = {
                key: one for key, one in self._offered.items() if one.made_ms >= offered_before_ms
            }
            self._runs = {
                key: one for key, one in self._runs.items() if one.ended_ms >= ended_before_ms
            }
            return before - len(self._offered) - len(self._runs)
