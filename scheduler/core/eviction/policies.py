"""Whose work may be stopped or moved, for whom, and up to how much: one policy for each kind of claim.

The solver is the same for all of them. Quota wins back whatever is borrowed, at once. A fair share and
a higher priority stop only work that has had its minimum run time and was not stopped for the like
within the last half-life. A move stops only work that goes on elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.model import eviction_cause
from gpucommons.scheduler.core.model.demand import elastic, milli_gpu, must_have, priority
from gpucommons.scheduler.core.model.eviction_cause import EvictionCause, was_moved
from gpucommons.scheduler.core.model.evolving import quick
from gpucommons.scheduler.core.model.lifecycle import is_lease
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptState,
    HoldClass,
    PoolName,
    Spec,
    TeamName,
    Workload,
)


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaShortfall:
    """Milli-GPU that a team must get back from its own work before more of it may start."""

    #: In the guarantee.
    guaranteed: int = 0
    #: Below the limit.
    training: int = 0

    @classmethod
    def of(
        cls, cycle: CycleState, spec: Spec, pool: PoolName, guarantee: int | None = None
    ) -> QuotaShortfall:
        """What a job lacks below its team's limit, and inside the guarantee where one is named."""
        need, use = milli_gpu(must_have(spec)), cycle.use(spec.team, pool)
        limit = cycle.quota_of(spec.team, pool).limit_milli_gpu
        return cls(
            guaranteed=0 if guarantee is None else use.guaranteed + need - guarantee,
            training=0 if limit is None else use.training + need - limit,
        )

    @property
    def anything(self) -> bool:
        """Quota is short."""
        return self.guaranteed > 0 or self.training > 0


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionPolicy:
    """Who may be stopped, for whom, and up to how much."""

    #: Policies with one name allow the same, so their searches share what they learn in a cycle.
    name: tuple[Hashable, ...]
    #: For whom.
    team: TeamName
    #: By which quota that team will hold the place.
    hold_class: HoldClass
    #: May this workload's workers of this class be stopped?
    may_stop: Callable[[Workload, HoldClass], bool]
    cause: EvictionCause
    shortfall: QuotaShortfall = QuotaShortfall()
    #: Milli-GPU that each team may lose; None = whatever may be stopped.
    budget: Mapping[TeamName, int] | None = None
    #: Only the team's own work may be stopped.
    within_team: bool = False
    #: Who is stopped goes on elsewhere.
    moves: bool = False
    #: Nobody is stopped whole: only workers go that an elastic job can do without.
    surplus_only: bool = False


def for_notebook(team: TeamName) -> EvictionPolicy:
    """Fixed quota wins back whatever is lent."""
    return EvictionPolicy(
        name=_BORROWED,
        team=team,
        hold_class=HoldClass.FIXED,
        may_stop=_is_borrowed,
        cause=eviction_cause.of_notebooks(team),
    )


def for_guarantee(team: TeamName, shortfall: QuotaShortfall) -> EvictionPolicy:
    """A guarantee wins back whatever is lent."""
    return EvictionPolicy(
        name=_BORROWED,
        team=team,
        hold_class=HoldClass.GUARANTEED,
        may_stop=_is_borrowed,
        cause=eviction_cause.of_guarantee(team),
        shortfall=shortfall,
    )


_BORROWED = ("borrowed",)


def _is_borrowed(_: Workload, hold_class: HoldClass) -> bool:
    return hold_class in {HoldClass.OVER_QUOTA, HoldClass.CPU}


def for_reservation(team: TeamName) -> EvictionPolicy:
    """Any job is in the way of a place that is to be reserved; nobody is stopped for it."""
    return EvictionPolicy(
        name=("jobs",),
        team=team,
        hold_class=HoldClass.GUARANTEED,
        may_stop=lambda _, hold_class: hold_class is not HoldClass.FIXED,
        cause=eviction_cause.of_guarantee(team),
    )


def for_share(cycle: CycleState, team: TeamName, budget: Mapping[TeamName, int]) -> EvictionPolicy:
    """Teams that borrow more for their weight give back, up to a budget."""

    def may_stop(other: Workload, hold_class: HoldClass) -> bool:
        return (
            hold_class is HoldClass.OVER_QUOTA
            and other.spec.team != team
            and may_be_stopped(cycle, other)
        )

    return EvictionPolicy(
        name=("share", team),
        team=team,
        hold_class=HoldClass.OVER_QUOTA,
        may_stop=may_stop,
        cause=eviction_cause.of_share(team),
        budget=budget,
    )


def for_priority(
    cycle: CycleState, workload: Workload, hold_class: HoldClass, shortfall: QuotaShortfall
) -> EvictionPolicy:
    """Inside a team, jobs of lower priority make room for one of higher priority."""
    team, mine = workload.spec.team, priority(workload)

    def may_stop(other: Workload, held: HoldClass) -> bool:
        return (
            not is_lease(other)
            # In-guarantee work would win its devices back from a borrower in the next cycle.
            and (hold_class is HoldClass.GUARANTEED or held is not HoldClass.GUARANTEED)
            and other.spec.team == team
            and priority(other) < mine
            and may_be_stopped(cycle, other)
        )

    return EvictionPolicy(
        name=("priority", team, mine, hold_class),
        team=team,
        hold_class=hold_class,
        may_stop=may_stop,
        cause=eviction_cause.of_priority(workload.spec.name),
        shortfall=shortfall,
        within_team=True,
    )


def for_room(cycle: CycleState, workload: Workload, teams: frozenset[TeamName]) -> EvictionPolicy:
    """Elastic jobs of these teams go down to their fewest workers while somebody waits.

    What lies inside a guarantee goes only to its own team, and to nobody there who is below it. Each
    job has its minimum run time first.
    """
    team, mine = workload.spec.team, priority(workload)

    def may_stop(other: Workload, hold_class: HoldClass) -> bool:
        attempt = other.current
        return (
            hold_class in {HoldClass.OVER_QUOTA, HoldClass.GUARANTEED}
            and (hold_class is HoldClass.OVER_QUOTA or other.spec.team == team)
            and elastic(other.spec)
            and other.spec.team in teams
            and (other.spec.team != team or priority(other) <= mine)
            and attempt is not None
            and attempt.started_ms is not None
            and attempt.started_ms + cycle.pool_of(attempt).min_run_ms <= cycle.now_ms
        )

    return EvictionPolicy(
        name=("room", team, mine, teams),
        team=team,
        hold_class=HoldClass.OVER_QUOTA,
        may_stop=may_stop,
        cause=eviction_cause.of_room(workload.spec.name),
        surplus_only=True,
    )


def for_move(cycle: CycleState, team: TeamName, hold_class: HoldClass) -> EvictionPolicy:
    """Running jobs go on elsewhere; those inside a guarantee only for others inside one."""

    def may_stop(other: Workload, held: HoldClass) -> bool:
        inside = HoldClass.GUARANTEED
        return (hold_class is inside or held is not inside) and may_be_moved(
            cycle, other, hold_class
        )

    return EvictionPolicy(
        name=("move", hold_class),
        team=team,
        hold_class=hold_class,
        may_stop=may_stop,
        cause=eviction_cause.of_move(f"a job of {team}"),
        moves=True,
    )


def may_be_stopped(cycle: CycleState, workload: Workload) -> bool:
    """Share or priority may stop it: it ran long enough, and was not stopped so a moment ago."""
    attempt = workload.current
    if attempt is None:
        return True
    since = stoppable_from_ms(cycle, workload, attempt)
    return since is not None and since <= cycle.now_ms


def stoppable_from_ms(cycle: CycleState, workload: Workload, attempt: Attempt) -> int | None:
    """From when on a running job may be stopped for another team's share or for higher priority in its
    team, or be moved: after the pool's minimum run time, and a half-life after its last such stop. Fixed quota
    and guarantees need not wait. None before it runs.
    """
    if attempt.started_ms is None:
        return None
    since = attempt.started_ms + cycle.pool_of(attempt).min_run_ms
    for before in reversed(workload.attempts):
        rule = "" if before.stop is None else before.stop.rule
        if before.ended_ms is not None and rule in eviction_cause.AMONG_EQUALS:
            return max(since, before.ended_ms + cycle.pool_of(attempt).half_life_ms)
    return since


def may_be_moved(cycle: CycleState, workload: Workload, hold_class: HoldClass) -> bool:
    """A job that runs, has had its minimum run time, loses little, and was never moved before.

    Nor is it moved for a borrower as long as it may not be stopped for one.
    """
    attempt = workload.current
    if (
        attempt is None
        or is_lease(workload)
        or attempt.state is not AttemptState.RUNNING
        or attempt.started_ms is None
        or attempt.stop is not None
        or workload.nomination is not None
        or was_moved(workload)
    ):
        return False
    ran_ms = cycle.now_ms - attempt.started_ms
    if ran_ms < cycle.pool_of(attempt).min_run_ms:
        return False
    if hold_class is HoldClass.OVER_QUOTA and not may_be_stopped(cycle, workload):
        return False
    # Without a checkpoint no more may be lost than the time that a start may take anyway.
    return workload.checkpoint is not None or ran_ms <= workload.spec.start_timeout_ms
