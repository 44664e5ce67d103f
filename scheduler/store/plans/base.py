"""The contract of stores with plans: offers, and runs that were judged by theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gpucommons.scheduler.core.model.types import Millis, TeamName, WorkloadId
from gpucommons.scheduler.plans import ChosenPlan
from gpucommons.scheduler.store.schedules.base import Epoch

EVER = Millis(0)
#: Runs that are looked at together, the newest: older ones count for next to nothing.
MANY = 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class Actual:
    """What came of a run; None where it is not known, and then why."""

    #: Of the attempt that ran longest.
    gpus: int
    pool: str
    #: The image or environment that it ran in. Runs in another are not compared.
    environment: str = ""
    #: Versions of its GPUs' driver; "" = its node told none, none at all: an older release kept it.
    #: Runs with another driver, or an unknown one, are not compared with those of a known one.
    drivers: tuple[str, ...] = ()
    #: Median seconds of an optimizer step, after the start.
    step_s: float | None = None
    #: Why the speed is not known.
    step_note: str = ""
    #: Most GPU memory, per GPU.
    memory_mib: int | None = None
    #: For GPUs.
    wait_ms: int | None = None
    #: Whether that is also of the waits after stops; False: up to the first start alone, as it was kept before.
    #: The two are not counted together.
    wait_is_whole: bool = False
    held_milli_gpu_ms: int = 0
    cost_micro: int | None = None
    #: It ended because the GPU's memory was full.
    ran_out: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedRun:
    """A job beside the plan that it took, as far as it is."""

    workload_id: WorkloadId
    team: TeamName
    submitted_ms: Millis
    #: Of jobs, as it is now.
    state: str
    plan: ChosenPlan
    actual: Actual

    @property
    def followed(self) -> bool:
        """Whether it ran as planned: else the plan is not to blame for its speed."""
        return self.actual.gpus == self.plan.gpus and self.actual.pool == self.plan.pool


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedRun(PlannedRun):
    """A job that is over, by the plan that it took. Key: the workload."""

    ended_ms: Millis


class PlanStore(Protocol):
    """Durable memory of plans. All methods may be called from any thread."""

    def offer(self, plans: Sequence[ChosenPlan]) -> None:
        """Keep what was answered (any replica)."""
        ...

    def offered(self, plan_id: str) -> ChosenPlan | None:
        """A plan that somebody may take; None where it is too old, or never was."""
        ...

    def judge(self, epoch: Epoch, runs: Sequence[JudgedRun]) -> None:
        """Add or replace outcomes by workload (the leader).

        Raises
        ------
        LeaderLost
            When another leads.
        """
        ...

    def run(self, workload_id: WorkloadId) -> JudgedRun | None:
        """One outcome."""
        ...

    def runs(self, *, since_ms: Millis = EVER, limit: int = MANY) -> tuple[JudgedRun, ...]:
        """The newest that ended since then, oldest first."""
        ...

    def drop(self, epoch: Epoch, *, offered_before_ms: Millis, ended_before_ms: Millis) -> int:
        """Forget older offers and older outcomes; returns how many went.

        Raises
        ------
        LeaderLost
            When another leads.
        """
        ...
