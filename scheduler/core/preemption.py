"""Inside one team: work of higher priority takes the place of work of lower priority.

Only jobs, only after their minimum run time, and again the fewest with the least work lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpucommons.scheduler.core.admission import Plan, Unit
from gpucommons.scheduler.core.demand import milli_gpu, must_have
from gpucommons.scheduler.core.draft import Draft
from gpucommons.scheduler.core.lifecycle import is_lease
from gpucommons.scheduler.core.ordering import HIGHEST, priority
from gpucommons.scheduler.core.placement import place
from gpucommons.scheduler.core.quota import quota_of
from gpucommons.scheduler.core.reclaim import ran_long_enough
from gpucommons.scheduler.core.room import Room
from gpucommons.scheduler.core.types import HoldClass, PoolName, TeamName, WorkerPlacement, Workload
from gpucommons.scheduler.core.victims import cheapest, units, use_without


def lowest_held(draft: Draft) -> dict[TeamName, int]:
    """The lowest priority of a job that holds or was promised devices, by team."""
    found: dict[TeamName, int] = {}
    for workload in draft.workloads.values():
        if not is_lease(workload) and (workload.current or workload.nomination):
            team = workload.spec.team
            found[team] = min(found.get(team, HIGHEST), priority(workload))
    return found


def for_priority(
    draft: Draft, workload: Workload, pool: PoolName, hold_class: HoldClass, guarantee: int
) -> Plan | None:
    """Find lower-priority jobs of the same team whose devices and quota let this one start."""
    spec = workload.spec
    workers = must_have(spec)
    need = milli_gpu(workers)
    limit = quota_of(draft.teams, spec.team, pool).limit_milli_gpu

    def takeable(other: Workload, held: HoldClass) -> bool:
        return (
            not is_lease(other)
            # In-guarantee work would win its devices back from a borrower at its next turn.
            and (hold_class is HoldClass.GUARANTEED or held is not HoldClass.GUARANTEED)
            and other.spec.team == spec.team
            and priority(other) < priority(workload)
            and ran_long_enough(draft, other, pool)
        )

    def fit(room: Room, gone: Sequence[Unit]) -> tuple[WorkerPlacement, ...]:
        use = use_without(draft, spec.team, pool, gone)
        if hold_class is HoldClass.GUARANTEED and use.guaranteed + need > guarantee:
            return ()
        if limit is not None and use.training + need > limit:
            return ()
        return place(room, workers, hold_class, pool)

    candidates = units(draft, pool, takeable)
    if all(draft.workloads[unit.workload_id].spec.team != spec.team for unit in candidates):
        return None
    found = cheapest(draft, pool, candidates, fit, workers)
    if found is None:
        return None
    return Plan(
        found[1], hold_class, found[0], "preempt", f"for {spec.name} (higher priority)", "priority"
    )
