"""Over-quota work: what is idle goes by weighted share to whoever asks, and can be taken back.

Work without a GPU comes along here: it needs processor and memory only, and counts against no
GPU quota.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.capacity.affinity import Affinity, affinity_of
from gpucommons.scheduler.core.capacity.capacity_arrays import is_as_much_free
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.elastic import gain
from gpucommons.scheduler.core.eviction import policies, solver
from gpucommons.scheduler.core.lending import kept_from_borrowers
from gpucommons.scheduler.core.model.demand import (
    Shape,
    borrowing_class,
    bounds,
    may_have,
    milli_gpu,
    must_have,
    on_cpu_only,
    priority,
    shape,
)
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.lifecycle import with_attempt
from gpucommons.scheduler.core.model.resources import drivers_of
from gpucommons.scheduler.core.model.types import (
    HoldClass,
    PoolName,
    State,
    TeamName,
    WorkerPlacement,
    Workload,
)
from gpucommons.scheduler.core.passes import fair_share_reservations
from gpucommons.scheduler.core.placement.admission import (
    admit,
    finds_nothing_better,
    found_nothing_free,
    in_order,
    nominate,
    nothing_is_free,
    tell_what_it_has,
    with_slices,
    without_its_promise,
)
from gpucommons.scheduler.core.placement.eviction_plan import EvictionPlan
from gpucommons.scheduler.core.placement.placement import place
from gpucommons.scheduler.core.queue import ordering, unused_quota

_Asked = tuple[Shape, PoolName, TeamName, int]
#: For whom nobody may be stopped for its share; whether it has waited long enough is a part of it.
_NOTHING_TO_SHARE: Entry[_Asked, bool] = Entry(
    "nothing to share",
    Fact.REFRESHED,
    Fact.WORKLOADS,
    Fact.FREED,
    Fact.HELD_FROM_BORROWERS,
    Fact.FAIR_SHARE_CLAIMS,
)

#: For whom no elastic job can make room.
_NO_ROOM: Entry[_Asked, bool] = Entry(
    "no room", Fact.REFRESHED, Fact.WORKLOADS, Fact.FREED, Fact.HELD_FROM_BORROWERS
)


def consider(cycle: CycleState, workload: Workload) -> None:
    """Give one workload its turn on what is idle; then on what others borrow beyond their share."""
    if _is_sure_of_better(cycle, workload) or finds_nothing_better(
        cycle, workload, borrowing_class(workload.spec)
    ):
        return
    if borrow(cycle, workload):
        return
    if workload.nomination is not None or on_cpu_only(workload.spec):
        return
    for stop_others in (_shrink_elastic_jobs, _take_share):
        if stop_others(cycle, workload):
            return


def consider_whole(cycle: CycleState, workload: Workload) -> None:
    """Give one workload its turn on what is idle, an elastic one with all that it asks for.

    Where it does not fit so, its turn with fewer workers comes when all of its team have had this one: a job
    that takes the remnants keeps those waiting that fit them whole, and runs for longer. Not when other teams
    have, too: whoever borrows most would then take each GPU that is free before it.
    """
    if workload.nomination is not None or not takes_fewer(workload):
        consider(cycle, workload)
        return
    # Not with more than it was measured to be any faster with.
    borrow(cycle, workload, fewest=gain.best_size(workload, workload.spec.roles[0].count))


def takes_fewer(workload: Workload) -> bool:
    """It would start with fewer workers than it asks for."""
    return bounds(workload.spec)[0] < workload.spec.roles[0].count


def borrow(cycle: CycleState, workload: Workload, *, fewest: int | None = None) -> bool:
    """Start it on what is free to borrowers; False where nothing fits it, with so many workers at least."""
    hold_class = borrowing_class(workload.spec)
    asking = workload
    if fewest is not None:
        asking = evolve(workload, spec=evolve(workload.spec, min_workers=fewest))
    with without_its_promise(cycle, workload):
        found = (_place_free(cycle, asking, pool, hold_class) for pool in workload.spec.pools)
        placements = next(filter(None, found), ())
    if placements:
        admit(cycle, workload, placements, hold_class)
    return bool(placements)


def update_hold_backs(cycle: CycleState) -> bool:
    """Work out anew what borrowers may not have; True where fair-share claims have changed.

    The turns that follow go by it. Whoever was kept off a place that nobody claims any more has a turn in
    step 5, whatever came of it before.
    """
    kept_from_borrowers.limit_lending(cycle)
    return fair_share_reservations.update_claims(cycle)


def borrow_what_is_idle(cycle: CycleState, workload: Workload) -> bool:
    """Start a job on what borrowers may have now, before anybody is stopped for it."""
    # Asked before each reclaim, of which there may be thousands: mostly nothing is idle.
    if not _could_borrow(cycle, workload):
        return False
    update_hold_backs(cycle)
    return borrow(cycle, workload)


def _could_borrow(cycle: CycleState, workload: Workload) -> bool:
    """No is certain: nobody holds or was promised too much, whatever is held back from borrowers."""
    spec, workers = workload.spec, must_have(workload.spec)
    need = milli_gpu(workers)
    one = min(WHOLE_MILLI_GPU, max(worker.milli_gpu for worker in workers))
    return spec.over_quota and any(
        is_as_much_free(cycle.capacity, pool, need, one) for pool in cycle.pools_of(spec)
    )


def _is_sure_of_better(cycle: CycleState, workload: Workload) -> bool:
    """Its guarantee is being cleared, and who is in the way cannot be spared any more."""
    nomination = workload.nomination
    if nomination is None or nomination.hold_class is not HoldClass.GUARANTEED:
        return False
    holders = (cycle.holder_of(attempt_id) for attempt_id in nomination.victims)
    stops = (one.current.stop for one in holders if one is not None and one.current is not None)
    return any(stop is not None and stop.signalled for stop in stops)


def _place_free(
    cycle: CycleState, workload: Workload, pool: PoolName, hold_class: HoldClass
) -> tuple[WorkerPlacement, ...]:
    """What it must have; more of an idle pool comes when everybody has had a turn (:func:`grow`)."""
    spec = workload.spec
    workers = must_have(spec)
    if pool not in cycle.pools or nothing_is_free(cycle, spec, pool, hold_class):
        return ()
    if hold_class is HoldClass.OVER_QUOTA:
        room = unused_quota.may_borrow(cycle, spec.team, pool) if spec.over_quota else 0
        if room < milli_gpu(workers):
            return ()
    affinity = affinity_of(spec, cycle.nodes, cycle.workloads)
    with fair_share_reservations.respected(cycle, workload, pool) as leaves_some:
        found = place(cycle.capacity, workers, hold_class, pool, affinity=affinity)
    # Others of this shape may have had less, and leave nothing to anybody.
    if not found and not leaves_some:
        found_nothing_free(cycle, spec, pool, hold_class)
    return found


def _stop_others(
    cycle: CycleState,
    workload: Workload,
    in_vain: Entry[_Asked, bool],
    rests_on: Callable[[PoolName], int],
    plan_in: Callable[[CycleState, Workload, PoolName], EvictionPlan | None],
) -> bool:
    """Promise it devices in the first of its pools where others make room, unless that is known to be ``in_vain``.

    ``rests_on``: what else the answer rests on, for who asks for the same.
    """
    spec = workload.spec
    for pool in spec.pools if spec.over_quota else ():
        asked = (shape(spec), pool, spec.team, rests_on(pool))
        if cycle.memo.get(in_vain, asked):
            continue
        if unused_quota.may_borrow(cycle, spec.team, pool) < milli_gpu(must_have(spec)):
            continue
        with fair_share_reservations.respected(cycle, workload, pool):
            plan = plan_in(cycle, workload, pool)
        if plan is not None:
            nominate(cycle, workload, plan)
            return True
        cycle.memo.keep(in_vain, asked, value=True)
    return False


def _take_share(cycle: CycleState, workload: Workload) -> bool:
    def has_waited(pool: PoolName) -> int:
        return fair_share_reservations.has_waited(cycle, workload, pool)

    return _stop_others(cycle, workload, _NOTHING_TO_SHARE, has_waited, for_share)


def _shrink_elastic_jobs(cycle: CycleState, workload: Workload) -> bool:
    """Have elastic jobs shrink for it: of its own team, and of teams that had as much of the surplus."""
    if not cycle.index.shrinkable:
        return False
    return _stop_others(cycle, workload, _NO_ROOM, lambda _: priority(workload), _for_room)


def _for_room(cycle: CycleState, workload: Workload, pool: PoolName) -> EvictionPlan | None:
    teams = frozenset(_may_shrink(cycle, workload.spec.team, pool))
    return solver.solve(cycle, workload.spec, pool, policies.for_room(cycle, workload, teams))


def _may_shrink(cycle: CycleState, team: TeamName, pool: PoolName) -> Iterator[TeamName]:
    had = ordering.surplus_had(cycle, team, pool)
    for other in {cycle.workloads[one].spec.team for one in cycle.index.shrinkable}:
        if other == team or ordering.surplus_had(cycle, other, pool) >= had:
            yield other


def for_share(cycle: CycleState, workload: Workload, pool: PoolName) -> EvictionPlan | None:
    """Take from teams that borrow more for their weight and still will afterwards, or that have had their
    turn.
    """
    spec = workload.spec
    # What ends anyway is nobody's loss: for that nobody need have waited.
    waited = fair_share_reservations.has_waited(cycle, workload, pool)
    budget = _budget(cycle, workload, pool) if waited else {}
    if not _gives_something(cycle, budget) and not cycle.index.leaving:
        return None  # nobody has too much, or only in larger parts, and nobody ends anyway
    return solver.solve(cycle, spec, pool, policies.for_share(cycle, spec.team, budget))


def _gives_something(cycle: CycleState, budget: Mapping[TeamName, int]) -> bool:
    """Somebody may lose as much as the smallest part of what they borrow."""
    parts = cycle.index.borrowed_parts
    return any(
        milli_gpu > 0 and min(parts.get(team) or (0,)) <= milli_gpu
        for team, milli_gpu in budget.items()
    )


def _budget(cycle: CycleState, workload: Workload, pool: PoolName) -> Mapping[TeamName, int]:
    """What each team may lose."""
    need = milli_gpu(must_have(workload.spec))
    return fair_share_reservations.accounts(cycle, pool).budget(workload.spec.team, need)


def grow(cycle: CycleState, workload: Workload) -> None:
    """Add borrowed workers to an elastic job that was admitted a moment ago."""
    attempt = workload.current
    spec = workload.spec
    hold_class = borrowing_class(workload.spec)
    if attempt is None or workload.state is not State.STARTING:
        return
    if not spec.over_quota and hold_class is not HoldClass.CPU:
        return
    optional = unused_quota.more_workers(cycle, workload, attempt)
    pool = cycle.nodes[attempt.placements[0].node_id].pool
    affinity = affinity_of(spec, cycle.nodes, cycle.workloads)
    near = [one.node_id for one in attempt.placements]
    with fair_share_reservations.respected(cycle, workload, pool):
        added = place(cycle.capacity, (), hold_class, pool, optional, affinity=affinity, near=near)
        if not added:
            return
        inside = attempt.hold_class is not hold_class
        marked = tuple(replace(one, surplus=inside) for one in added)
        found = (*attempt.placements, *marked)
        if not inside:
            found = _as_a_gang(cycle, workload, pool, found, affinity)
    placements = in_order(workload, found)
    attempt = replace(
        attempt,
        placements=with_slices(attempt.attempt_id, placements),
        drivers=drivers_of(cycle.nodes[one.node_id] for one in placements),
    )
    tell_what_it_has(cycle, cycle.put(with_attempt(workload, attempt)), attempt)


def _as_a_gang(
    cycle: CycleState,
    workload: Workload,
    pool: PoolName,
    found: tuple[WorkerPlacement, ...],
    affinity: Affinity,
) -> tuple[WorkerPlacement, ...]:
    """As many workers in the tightest part of the pool that takes them: none of them has begun.

    With the places that were found one after the other where that would take more of fixed blocks.
    """
    spec, hold_class = workload.spec, borrowing_class(workload.spec)
    must = must_have(spec)
    workers = (*must, *may_have(spec)[: len(found) - len(must)])
    bare = evolve(workload, attempts=workload.attempts[:-1])
    cycle.follow(workload, bare)
    try:
        together = place(cycle.capacity, workers, hold_class, pool, affinity=affinity)
    finally:
        cycle.follow(bare, workload)
    if not together or _in_blocks(cycle, together) > _in_blocks(cycle, found):
        return found
    return together


def _in_blocks(cycle: CycleState, placements: Sequence[WorkerPlacement]) -> int:
    """How much of fixed blocks lies on their devices."""
    return sum(
        cycle.capacity.nodes[one.node_id].devices[device_id].blocks.bit_count()
        for one in placements
        for device_id in one.device_ids
    )
