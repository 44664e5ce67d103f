"""Jobs ask for those of their pools alone that can wake what is saved of them and that they pay for.

Nodes come and go, prices change, and admins switch it on and off, so what a job asks for now is found
from the facts of this moment in each cycle.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.going_on.image_places import able_pools
from gpucommons.scheduler.core.model.demand import affordable, price_limit
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.resources import policies_of
from gpucommons.scheduler.core.model.types import Millis, Workload, WorkloadId
from gpucommons.scheduler.core.placement.admission import withdraw
from gpucommons.scheduler.core.quota.quota import pool_name_of


def narrow_pools(cycle: CycleState) -> None:
    """Let each ask for what it can have; a promise elsewhere is taken back."""
    for before in cycle.among(cycle.index.narrowed.union(_priced_out(cycle))):
        workload = _narrowed(cycle, before)
        if workload is not before:
            cycle.put(workload)
        promise = workload.nomination
        if promise is None or workload.current is not None:
            continue
        if pool_name_of(cycle.nodes, promise.placements) not in workload.spec.pools:
            withdraw(cycle, workload)


def _narrowed(cycle: CycleState, workload: Workload) -> Workload:
    """The same job; it asks for all that is left where none is affordable, and waits for the price."""
    submitted = workload.submitted_pools or workload.spec.pools
    able = able_pools(workload, submitted, cycle.pools, cycle.nodes) or submitted
    if workload.current is None:
        spec = workload.spec
        most = price_limit(spec, policies_of(spec.team, cycle.teams, cycle.policy))
        able = affordable(spec, most, able, cycle.pools, cycle.now_ms) or able
    if able == workload.spec.pools:
        return workload
    spec = evolve(workload.spec, pools=able)
    return evolve(workload, spec=spec, submitted_pools=() if able == submitted else submitted)


def _priced_out(cycle: CycleState) -> Iterator[WorkloadId]:
    """Who waits where a pool costs more than its team or the hub pays now: asked once for all who wait alike.

    What a job pays at most itself, and what is saved of it, is its own: those are among the narrowed.
    """
    for key, waiting in cycle.index.equivalence_classes.items():
        spec = cycle.workloads[waiting.members[0].workload_id].spec
        most = price_limit(
            evolve(spec, max_price_micro=None), policies_of(spec.team, cycle.teams, cycle.policy)
        )
        if most is None:
            continue
        able = affordable(spec, most, key.pools, cycle.pools, cycle.now_ms)
        if able and len(able) < len(key.pools):
            yield from (one.workload_id for one in waiting.members)


def next_prices(cycle: CycleState) -> Iterator[Millis]:
    """When a pool costs something else: who waits for it may start, and no event will say so."""
    for pool in cycle.pools.values():
        for price in pool.prices:
            yield Millis(price.from_ms)
