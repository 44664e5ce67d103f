"""Inside one team: work of higher priority takes the place of work of lower priority.

Only jobs, only after their minimum run time, and again the fewest with the least work lost.
"""

from __future__ import annotations

from gpucommons.scheduler.core import stops
from gpucommons.scheduler.core.admission import Plan
from gpucommons.scheduler.core.demand import milli_gpu, must_have
from gpucommons.scheduler.core.draft import Draft
from gpucommons.scheduler.core.lifecycle import is_lease
from gpucommons.scheduler.core.ordering import HIGHEST, priority
from gpucommons.scheduler.core.quota import quota_of
from gpucommons.scheduler.core.reclaim import may_be_stopped
from gpucommons.scheduler.core.search import Lacking, Search
from gpucommons.scheduler.core.types import HoldClass, PoolName, TeamName, Workload
from gpucommons.scheduler.core.units import units_of
from gpucommons.scheduler.core.victims import cheapest


def lowest_held(draft: Draft) -> dict[TeamName, int]:
    """The lowest priority of a job that holds or was promised devices, by team."""
    found: dict[TeamName, int] = {}
    for workload_id in draft.register.holding | draft.register.nominated:
        workload = draft.workloads[workload_id]
        if not is_lease(workload):
            team = workload.spec.team
            found[team] = min(found.get(team, HIGHEST), priority(workload))
    return found


def for_priority(
    draft: Draft, workload: Workload, pool: PoolName, hold_class: HoldClass, guarantee: int
) -> Plan | None:
    """Find lower-priority jobs of the same team whose devices and quota let this one start."""
    spec = workload.spec

    def takeable(other: Workload, held: HoldClass) -> bool:
        return (
            not is_lease(other)
            # In-guarantee work would win its devices back from a borrower at its next turn.
            and (hold_class is HoldClass.GUARANTEED or held is not HoldClass.GUARANTEED)
            and other.spec.team == spec.team
            and priority(other) < priority(workload)
            and may_be_stopped(draft, other)
        )

    right = ("priority", spec.team, priority(workload), hold_class)
    units = units_of(draft, right, pool, takeable)
    lacking = _lacking(draft, workload, pool, hold_class, guarantee)
    found = cheapest(Search(draft, pool, must_have(spec), hold_class, units, right, lacking))
    if found is None or not found[0]:
        return None
    return Plan(
        found[1],
        hold_class,
        found[0],
        "preempt",
        f"for {spec.name} (higher priority)",
        stops.PRIORITY,
    )


def _lacking(
    draft: Draft, workload: Workload, pool: PoolName, hold_class: HoldClass, guarantee: int
) -> Lacking:
    """Quota that its team must get back from its own work."""
    team, need = workload.spec.team, milli_gpu(must_have(workload.spec))
    limit = quota_of(draft.teams, team, pool).limit_milli_gpu
    use = draft.use(team, pool)
    inside = hold_class is HoldClass.GUARANTEED
    return Lacking(
        team,
        guaranteed=use.guaranteed + need - guarantee if inside else 0,
        training=0 if limit is None else use.training + need - limit,
    )
