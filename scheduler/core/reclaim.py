"""Winning devices back from other teams: for fixed and guaranteed quota, and for a fair share.

Quota wins back whatever is borrowed, at once. A share is won back only from teams that borrow more
for their weight, and only from work that has had its minimum run time.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpucommons.scheduler.core.admission import Plan, Unit
from gpucommons.scheduler.core.demand import (
    milli_gpu,
    must_have,
)
from gpucommons.scheduler.core.draft import Draft
from gpucommons.scheduler.core.placement import place
from gpucommons.scheduler.core.quota import quota_of
from gpucommons.scheduler.core.room import Room
from gpucommons.scheduler.core.types import (
    HoldClass,
    PoolName,
    TeamName,
    WorkerPlacement,
    Workload,
)
from gpucommons.scheduler.core.victims import cheapest, dearness, units, use_without


def borrowed(_: Workload, hold_class: HoldClass) -> bool:
    """Lent devices and lent processors: what fixed and guaranteed quota may win back."""
    return hold_class in {HoldClass.OVER_QUOTA, HoldClass.CPU}


def for_guarantee(draft: Draft, workload: Workload, pool: PoolName) -> Plan | None:
    """Win back what a team's guarantee covers from whoever borrows it."""
    spec = workload.spec
    workers = must_have(spec)
    limit = quota_of(draft.teams, spec.team, pool).limit_milli_gpu

    def fit(room: Room, gone: Sequence[Unit]) -> tuple[WorkerPlacement, ...]:
        held = use_without(draft, spec.team, pool, gone).training
        if limit is not None and held + milli_gpu(workers) > limit:
            return ()
        return place(room, workers, HoldClass.GUARANTEED, pool)

    found = cheapest(draft, pool, units(draft, pool, borrowed), fit, workers)
    if found is None:
        return None
    return Plan(
        found[1],
        HoldClass.GUARANTEED,
        found[0],
        "reclaim",
        f"for {spec.team} (its guarantee)",
        f"guarantee of {spec.team}",
    )


def ran_long_enough(draft: Draft, workload: Workload, pool: PoolName) -> bool:
    """It has had its minimum run time, so share or priority may stop it."""
    attempt = workload.current
    if attempt is None:
        return True
    settings = draft.pools.get(pool)
    least = 0 if settings is None else settings.min_run_ms
    return attempt.started_ms is not None and draft.now_ms - attempt.started_ms >= least


def for_share(draft: Draft, workload: Workload, pool: PoolName) -> Plan | None:
    """Take from teams that borrow more for their weight, and would still not borrow less."""
    spec = workload.spec
    workers = must_have(spec)
    need = milli_gpu(workers)
    mine = draft.use(spec.team, pool).borrowed + need
    weight = quota_of(draft.teams, spec.team, pool).over_quota_weight
    candidates: list[Unit] = []
    left: dict[TeamName, int] = {}

    def takeable(other: Workload, hold_class: HoldClass) -> bool:
        return (
            hold_class is HoldClass.OVER_QUOTA
            and other.spec.team != spec.team
            and ran_long_enough(draft, other, pool)
        )

    for unit in sorted(units(draft, pool, takeable), key=dearness):
        team = draft.workloads[unit.workload_id].spec.team
        theirs = left.get(team, draft.use(team, pool).borrowed)
        after = theirs - (
            draft.use(team, pool).borrowed - use_without(draft, team, pool, [unit]).borrowed
        )
        their_weight = quota_of(draft.teams, team, pool).over_quota_weight
        if unit.ending or after * weight >= mine * max(1, their_weight):
            candidates.append(unit)
            left[team] = after

    def fit(room: Room, _: Sequence[Unit]) -> tuple[WorkerPlacement, ...]:
        return place(room, workers, HoldClass.OVER_QUOTA, pool)

    found = cheapest(draft, pool, candidates, fit, workers)
    if found is None:
        return None
    return Plan(
        found[1],
        HoldClass.OVER_QUOTA,
        found[0],
        "reclaim",
        f"for {spec.team} (its share)",
        "fair share",
    )
