"""Jobs ask for those of their pools alone that can wake what is saved of them and that they pay for.

Nodes come and go, prices change, and admins switch it on and off, so what a job asks for now is found
from the facts of this moment in each cycle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.going_on.image_places import able_pools
from gpucommons.scheduler.core.model.demand import affordable, price_limit
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.types import Millis, Workload, WorkloadId
from gpucommons.scheduler.core.placement.admission import pool_of, withdraw
from gpucommons.scheduler.core.queue.eligibility import policies_of


def narrow_pools(cycle: CycleState) -> None:
    """Let each ask for what it can have; a promise elsewhere is taken back."""
    for before in cycle.among(cycle.index.narrowed | _under_a_price(cycle)):
        workload = _narrowed(cycle, before)
        if workload is not before:
            cycle.put(workload)
        promise = workload.nomination
        if promise is None or workload.current is not None:
            continue
        if pool_of(cycle, promise.placements) not in workload.spec.pools:
            withdraw(cycle, workload)


def _narrowed(cycle: CycleState, workload: Workload) -> Workload:
    """The same job; it asks for all that is left where none is affordable, and waits for the price."""
    submitted = workload.submitted_pools or workload.spec.pools
    able = able_pools(workload, submitted, cycle.pools, cycle.nodes) or submitted
    if workload.current is None:
        spec = workload.spec
        most = price_limit(spec, policies_of(cycle, spec))
        able = affordable(spec, most, able, cycle.pools, cycle.now_ms) or able
    if able == workload.spec.pools:
        return workload
    spec = replace(workload.spec, pools=able)
    return evolve(workload, spec=spec, submitted_pools=() if able == submitted else submitted)


def _under_a_price(cycle: CycleState) -> set[WorkloadId]:
    """Who waits in a line of a team that pays so much and no more."""
    hub = cycle.policy.max_price_micro is not None
    limited = {
        team.name for team in cycle.teams.values() if hub or team.policy.max_price_micro is not None
    }
    if not limited:
        return set()
    return {
        one.workload_id
        for key, waiting in cycle.index.equivalence_classes.items()
        if key.team in limited
        for one in waiting.members
    }


def next_prices(cycle: CycleState) -> Iterator[Millis]:
    """When a pool will cost something else: who waits for it may start, and no event will say so."""
    for pool in cycle.pools.values():
        for price in pool.prices:
            if price.from_ms > cycle.now_ms:
                yield price.from_ms
