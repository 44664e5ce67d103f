"""In-guarantee work: what a team's guarantee covers starts on devices outside fixed blocks.

It takes free devices, else wins devices back from borrowers; where it could, and something else is
free (a part of a fixed block, say), it borrows that and nobody is stopped. Else (other in-guarantee
work is in the way) it reserves a place that later in-guarantee work may not fill; borrowers may, for a
while.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpucommons.scheduler.core.capacity.affinity import affinity_of
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.elastic import gain
from gpucommons.scheduler.core.eviction import policies, solver
from gpucommons.scheduler.core.eviction.policies import QuotaShortfall
from gpucommons.scheduler.core.model.demand import (
    Shape,
    bounds,
    may_have,
    milli_gpu,
    must_have,
    placed_milli_gpu,
    priority,
    shape,
)
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.holds import load_by_node, mask_of
from gpucommons.scheduler.core.model.lifecycle import with_attempt
from gpucommons.scheduler.core.model.types import (
    HoldClass,
    PoolName,
    TeamName,
    WorkerPlacement,
    Workload,
)
from gpucommons.scheduler.core.passes import over_quota
from gpucommons.scheduler.core.placement import guaranteed_host_resources
from gpucommons.scheduler.core.placement.admission import (
    admit,
    finds_nothing_better,
    found_nothing_free,
    nominate,
    nothing_is_free,
    tell_what_it_has,
    without_its_promise,
)
from gpucommons.scheduler.core.queue import reclaim_cooldown, unused_quota

_Asked = tuple[Shape, PoolName, TeamName]
#: Who could win nothing back; borrowers that begin now lie where something was free.
_NOTHING_TO_WIN_BACK: Entry[_Asked, bool] = Entry("nothing to win back", Fact.REFRESHED, Fact.FREED)
#: For what no place could be made by all jobs together.
_NOTHING_TO_RESERVE: Entry[_Asked, bool] = Entry("nothing to reserve", Fact.REFRESHED, Fact.FREED)


def consider(cycle: CycleState, workload: Workload) -> None:
    """Give one workload its turn: upgrade what runs, admit what waits, or reclaim for it."""
    if workload.current is not None:
        upgrade(cycle, workload)
        return
    if workload.nomination is None and not _covered(cycle, workload):
        return
    if finds_nothing_better(cycle, workload, HoldClass.GUARANTEED):
        return
    with without_its_promise(cycle, workload):
        found = (_place_free(cycle, workload, pool) for pool in workload.spec.pools)
        placements = next(filter(None, found), ())
    if placements:
        admit(cycle, workload, placements, HoldClass.GUARANTEED)
    elif workload.nomination is None and not _reclaim(cycle, workload):
        _reserve(cycle, workload)


def _covered(cycle: CycleState, workload: Workload) -> bool:
    """What is left of its team's guarantee suffices in some pool."""
    return any(
        guaranteed_host_resources.guarantee_covers(cycle, workload, pool)
        for pool in workload.spec.pools
    )


def _place_free(
    cycle: CycleState, workload: Workload, pool: PoolName
) -> tuple[WorkerPlacement, ...]:
    spec = workload.spec
    workers, optional = must_have(spec), may_have(spec)
    room_left = unused_quota.of_guarantee(cycle, spec.team, pool)
    limit = cycle.quota_of(spec.team, pool).limit_milli_gpu
    if limit is not None:
        room_left = min(room_left, limit - cycle.use(spec.team, pool).training)
    room_left -= milli_gpu(workers)
    if room_left < 0 or nothing_is_free(cycle, spec, pool, HoldClass.GUARANTEED):
        return ()
    if not guaranteed_host_resources.may_be_kept(cycle, spec, pool):
        return ()
    # What it takes beyond the size that it asks for is never inside the guarantee: others are.
    # Nor are those with which it was measured to be no faster.
    best = gain.best_size(workload, spec.roles[0].count)
    more = min(room_left // max(1, spec.roles[0].milli_gpu), best - bounds(spec)[0])
    affinity = affinity_of(spec, cycle.nodes, cycle.workloads)
    found = guaranteed_host_resources.place_kept(
        cycle, spec, pool, workers, optional[:more], affinity=affinity
    )
    # What was free may have been out of proportion, and another place would be in proportion.
    if not found and guaranteed_host_resources.always_kept(cycle, spec, pool):
        found_nothing_free(cycle, spec, pool, HoldClass.GUARANTEED)
    return found


def _reclaim(cycle: CycleState, workload: Workload) -> bool:
    spec = workload.spec
    for pool in _pools_to_win_back_in(cycle, workload, _NOTHING_TO_WIN_BACK):
        policy = policies.for_guarantee(spec.team, QuotaShortfall.of(cycle, spec, pool))
        plan = solver.solve(cycle, spec, pool, policy)
        if plan is not None:
            # Nobody is stopped for what fits where nobody is. Should an owner want that place, the
            # guarantee can win devices back then.
            if not over_quota.borrow_what_is_idle(cycle, workload):
                nominate(cycle, workload, plan)
            return True
        cycle.memo.keep(_NOTHING_TO_WIN_BACK, (shape(spec), pool, spec.team), value=True)
    return False


def _pools_to_win_back_in(
    cycle: CycleState, workload: Workload, in_vain: Entry[_Asked, bool]
) -> Iterator[PoolName]:
    """Where its guarantee covers it and others may be stopped for it, unless that is known to be ``in_vain``."""
    spec = workload.spec
    for pool in spec.pools:
        if (
            not cycle.memo.get(in_vain, (shape(spec), pool, spec.team))
            and guaranteed_host_resources.guarantee_covers(cycle, workload, pool)
            and reclaim_cooldown.may_win_back(cycle, workload, pool)
        ):
            yield pool


def _reserve(cycle: CycleState, workload: Workload) -> None:
    """Keep the place with the least in-guarantee work in its way: one per team and pool."""
    spec = workload.spec
    for pool in _pools_to_win_back_in(cycle, workload, _NOTHING_TO_RESERVE):
        if _has_reserved(cycle, spec.team, pool):
            continue
        plan = solver.solve(cycle, spec, pool, policies.for_reservation(spec.team))
        if plan is None:
            cycle.memo.keep(_NOTHING_TO_RESERVE, (shape(spec), pool, spec.team), value=True)
            continue
        cycle.capacity.reserve(workload, plan.placements)
        return


def _has_reserved(cycle: CycleState, team: TeamName, pool: PoolName) -> bool:
    """A place is kept for another job of the team there."""
    return any(
        held[0].team == team and cycle.nodes[held[0].node_id].pool == pool
        for held in cycle.capacity.reservations.values()
    )


def reserves_in_vain(cycle: CycleState) -> bool:
    """A place is kept that its job has no claim to any more, or that others have before it.

    Its own team has used the guarantee since, or who was let in to borrow there becomes
    in-guarantee as soon as turns are taken anew.
    """
    reservations = cycle.capacity.reservations
    if not reservations:
        return False
    lowest = min(priority(cycle.workloads[one]) for one in reservations)
    return any(
        not guaranteed_host_resources.guarantee_covers(
            cycle, cycle.workloads[one], cycle.nodes[held[0].node_id].pool
        )
        for one, held in reservations.items()
    ) or any(
        priority(one) >= lowest
        and unused_quota.entitled(cycle, one)
        and _fit_inside(cycle, one, kept=False)
        for one in cycle.among(cycle.turns.admitted)
    )


def may_upgrade(workload: Workload) -> bool:
    """It borrows now and is not being stopped."""
    attempt = workload.current
    return (
        attempt is not None and attempt.stop is None and attempt.hold_class is HoldClass.OVER_QUOTA
    )


def upgradable(cycle: CycleState) -> list[Workload]:
    """Borrowers whose team has some of its guarantee left."""
    teams = {
        team
        for pool in cycle.pools
        for team in unused_quota.guarantees(cycle, pool)
        if unused_quota.of_guarantee(cycle, team, pool) > 0
    }
    if not teams:
        return []
    borrowers = cycle.among(cycle.index.borrowing)
    return [
        one for one in borrowers if one.spec.team in teams and unused_quota.entitled(cycle, one)
    ]


def upgrade(cycle: CycleState, workload: Workload) -> None:
    """Turn a borrower in-guarantee where none of its devices lies in a block and quota allows."""
    attempt = workload.current
    if attempt is None or not _fit_inside(cycle, workload, kept=True):
        return
    marked = [evolve(one, surplus=_is_surplus(workload, one)) for one in attempt.placements]
    attempt = evolve(attempt, hold_class=HoldClass.GUARANTEED, placements=tuple(marked))
    workload = cycle.put(with_attempt(workload, attempt))
    if workload.workload_id in cycle.turns.admitted:
        # It began in this cycle: it never borrowed.
        tell_what_it_has(cycle, workload, attempt)
        return
    cycle.tell(
        "upgraded",
        f"{workload.spec.name} is now inside {workload.spec.team}'s guarantee.",
        workload,
    )


def _fit_inside(cycle: CycleState, workload: Workload, *, kept: bool) -> bool:
    """A borrower's devices may be its team's guarantee; ``kept``: but for those kept for others."""
    attempt = workload.current
    if attempt is None or not may_upgrade(workload):
        return False
    base = [one for one in attempt.placements if not _is_surplus(workload, one)]
    pool = cycle.nodes[base[0].node_id].pool
    return (
        unused_quota.of_guarantee(cycle, workload.spec.team, pool)
        >= sum(map(placed_milli_gpu, base))
        and _outside_blocks(cycle, base, kept=kept)
        and _firm_share_is_there(cycle, base)
        and guaranteed_host_resources.are_kept(cycle, workload.spec.team, pool, base)
    )


def _is_surplus(workload: Workload, one: WorkerPlacement) -> bool:
    """A worker that an elastic job can do without."""
    low, _ = bounds(workload.spec)
    return one.index >= low and one.role == workload.spec.roles[0].name


def _outside_blocks(
    cycle: CycleState, placements: Sequence[WorkerPlacement], *, kept: bool
) -> bool:
    for one in placements:
        node = cycle.capacity.nodes.get(one.node_id)
        if node is None:
            return False
        for device_id in one.device_ids:
            device = node.devices.get(device_id)
            if device is None or mask_of(one) & (device.blocks | (device.reserved if kept else 0)):
                return False
    return True


def _firm_share_is_there(cycle: CycleState, placements: Sequence[WorkerPlacement]) -> bool:
    return all(
        cycle.capacity.nodes[node_id].free_for_guaranteed().at_least(load)
        for node_id, load in load_by_node(placements).items()
    )
