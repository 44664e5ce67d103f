"""Giving devices to a workload, or promising them while their holders are stopped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace

from gpucommons.gpu.slices.slices import format_gpus, worker_slice
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.model.demand import Shape, place_of, placed_milli_gpu, shape
from gpucommons.scheduler.core.model.eviction_cause import StopCause
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.lifecycle import admitted, move, nominated, withdrawn
from gpucommons.scheduler.core.model.resources import NodeState, drivers_of
from gpucommons.scheduler.core.model.state_words import hold_class_words
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    AttemptState,
    HoldClass,
    Nomination,
    Parked,
    PoolName,
    Spec,
    State,
    WorkerPlacement,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.placement.eviction_plan import EvictionCandidate, EvictionPlan
from gpucommons.scheduler.core.stopping import notice

_NO_PROMISE = nullcontext()
#: What finds nothing free, as work of a class. A gang's places are found one after the other, yet
#: what was not found once is not found later, unless something becomes free.
_NOTHING_FREE: Mapping[HoldClass, Entry[tuple[HoldClass, Shape, PoolName], bool]] = {
    HoldClass.GUARANTEED: Entry("no free place", Fact.REFRESHED, Fact.FREED),
    HoldClass.OVER_QUOTA: Entry(
        "no idle place", Fact.REFRESHED, Fact.FREED, Fact.HELD_FROM_BORROWERS
    ),
    HoldClass.CPU: Entry("no idle cores", Fact.REFRESHED, Fact.FREED, Fact.HELD_FROM_BORROWERS),
}


def nothing_is_free(cycle: CycleState, spec: Spec, pool: PoolName, hold_class: HoldClass) -> bool:
    """Its like found nothing, and nothing has become free since."""
    key = (hold_class, shape(spec), pool)
    return cycle.memo.get(_NOTHING_FREE[hold_class], key) is not None


def found_nothing_free(
    cycle: CycleState, spec: Spec, pool: PoolName, hold_class: HoldClass
) -> None:
    """Nothing is free there for anybody who asks for the same."""
    cycle.memo.keep(_NOTHING_FREE[hold_class], (hold_class, shape(spec), pool), value=True)


def finds_nothing_better(cycle: CycleState, workload: Workload, hold_class: HoldClass) -> bool:
    """A nominee whose like found nothing, and whose promise hides nothing."""
    if workload.nomination is None or cycle.capacity.promise_on_free_devices(workload.workload_id):
        return False
    spec = workload.spec
    return all(nothing_is_free(cycle, spec, pool, hold_class) for pool in spec.pools)


def in_order(
    workload: Workload, placements: Sequence[WorkerPlacement]
) -> tuple[WorkerPlacement, ...]:
    """Workers by role and index: the place in this order is a worker's rank."""
    if len(placements) == 1:
        return tuple(placements)
    roles = [role.name for role in workload.spec.roles]
    return tuple(sorted(placements, key=lambda one: (roles.index(one.role), one.index)))


def with_slices(
    attempt_id: AttemptId, placements: Sequence[WorkerPlacement], parked: Parked | None = None
) -> tuple[WorkerPlacement, ...]:
    """Name the slice of every worker that has one; what lives on knows its slice by its old name."""
    if parked is not None:
        return tuple(evolve(one, slice_id=parked.place.slice_id) for one in placements)
    return tuple(
        evolve(one, slice_id=worker_slice(attempt_id, rank)) if one.device_ids else one
        for rank, one in enumerate(placements)
    )


def admit(
    cycle: CycleState,
    workload: Workload,
    placements: Sequence[WorkerPlacement],
    hold_class: HoldClass,
) -> Workload:
    """Reserve devices: a new attempt that holds them from now on."""
    if workload.nomination is not None:
        cycle.ask_for_another_round()
    _has_its_place(cycle, workload)
    # Of who was promised devices in this cycle it is told that it has some, not both.
    cycle.told.take_back("nominated", workload.workload_id)
    attempt_id = AttemptId(next(cycle.new_ids))
    ordered = in_order(workload, placements)
    attempt = Attempt(
        attempt_id=attempt_id,
        workload_id=workload.workload_id,
        number=len(workload.attempts) + 1,
        state=AttemptState.RESERVED,
        hold_class=hold_class,
        placements=with_slices(attempt_id, ordered, workload.parked),
        reserved_ms=cycle.now_ms,
        resumed_from=workload.checkpoint,
        drivers=drivers_of(cycle.nodes[one.node_id] for one in ordered),
    )
    workload = cycle.put(admitted(workload, attempt, cycle.now_ms))
    # A notebook waits for its server, or goes on in it.
    if workload.state is State.STARTING:
        cycle.turns.admitted.add(workload.workload_id)
    tell_what_it_has(cycle, workload, attempt)
    return workload


def tell_what_it_has(cycle: CycleState, workload: Workload, attempt: Attempt) -> None:
    """Told once, of what it has when the cycle is over: an elastic job may be placed anew till then."""
    kind = "admitted" if workload.state is State.STARTING else "granted"
    held = sum([placed_milli_gpu(one) for one in attempt.placements])
    where = ", ".join(sorted({one.node_id for one in attempt.placements}))
    name, hold_class = workload.spec.name or "The notebook", attempt.hold_class
    how = hold_class_words(hold_class)
    if surplus := sum(placed_milli_gpu(one) for one in attempt.placements if one.surplus):
        how = f"{how}, {format_gpus(surplus)} of them {hold_class_words(HoldClass.OVER_QUOTA)}"
    cycle.told.take_back(kind, workload.workload_id)
    cycle.tell(
        kind,
        f"{name} has {format_gpus(held)} on {where} ({how}).",
        workload,
        data={"hold_class": hold_class, "milli_gpu": held, "attempt": attempt.number},
    )


def _has_its_place(cycle: CycleState, workload: Workload) -> None:
    """Another place was kept for its sake so far."""
    if workload.workload_id in cycle.capacity.reservations:
        cycle.ask_for_another_round()


def without_its_promise(cycle: CycleState, workload: Workload) -> AbstractContextManager[None]:
    """Look for a place as if it were promised none: what is its own is not in its way."""
    # Asked for everyone in line, most of whom are promised nothing and hold nothing of a node.
    bare = workload.nomination is None and workload.parked is None
    return _NO_PROMISE if bare else _without_promise(cycle, workload)


@contextmanager
def _without_promise(cycle: CycleState, workload: Workload) -> Iterator[None]:
    bare = evolve(workload, nomination=None, parked=None)
    cycle.follow(workload, bare)
    try:
        yield
    finally:
        cycle.follow(bare, workload)


def nominate(cycle: CycleState, workload: Workload, plan: EvictionPlan) -> Workload:
    """Promise devices and give notice to those who hold them; admit where nobody does."""
    if workload.nomination is not None:
        workload = withdraw(cycle, workload)
    victims = _give_notice(cycle, workload, plan)
    if not victims:
        return admit(cycle, workload, plan.placements, plan.hold_class)
    _has_its_place(cycle, workload)
    nomination = Nomination(
        placements=in_order(workload, plan.placements),
        hold_class=plan.hold_class,
        victims=victims,
        decided_ms=cycle.now_ms,
    )
    workload = cycle.put(nominated(workload, nomination, cycle.now_ms))
    _offer_the_rest(cycle, plan)
    cycle.tell(
        "nominated",
        f"{workload.spec.name or 'The notebook'} is next on devices that are being cleared.",
        workload,
        data={"victims": list(victims), "hold_class": plan.hold_class},
    )
    return workload


def _offer_the_rest(cycle: CycleState, plan: EvictionPlan) -> None:
    """Victims give up more than was asked for: who was considered before may use the rest."""
    given = sum(
        placed_milli_gpu(attempt.placements[key.rank])
        for candidate in plan.candidates
        for attempt in [cycle.workloads[candidate.workload_id].current]
        if attempt is not None and not candidate.ending
        for key in candidate.keys
    )
    if given > sum(placed_milli_gpu(one) for one in plan.placements):
        cycle.ask_for_another_round()


def withdraw(cycle: CycleState, workload: Workload) -> Workload:
    """Take a promise back; the workload waits on with its age."""
    if workload.nomination is None:
        return workload
    cycle.ask_for_another_round()
    cycle.told.take_back("nominated", workload.workload_id)
    return cycle.put(withdrawn(workload, cycle.now_ms))


def _give_notice(
    cycle: CycleState, beneficiary: Workload, plan: EvictionPlan
) -> tuple[AttemptId, ...]:
    by_workload: dict[WorkloadId, list[EvictionCandidate]] = {}
    for candidate in plan.candidates:
        by_workload.setdefault(candidate.workload_id, []).append(candidate)
    victims: list[AttemptId] = []
    for workload_id, candidates in sorted(by_workload.items()):
        victim = cycle.workloads[workload_id]
        attempt = victim.current
        if attempt is None:
            withdraw(cycle, victim)
            continue
        if not any(candidate.keys for candidate in candidates):
            _take_destination(cycle, victim, attempt)
            continue
        victims.append(attempt.attempt_id)
        if any(candidate.whole for candidate in candidates):
            if victim.nomination is not None:
                victim = cycle.put(replace(victim, nomination=None))
            cause = plan.cause
        else:
            freed = {key.rank for candidate in candidates for key in candidate.keys}
            victim = _shrink(cycle, victim, attempt, freed)
            cause = plan.cause._replace(why=StopCause.SHRINK_FOR_OTHERS)
        notice.announce(cycle, victim, cause, beneficiary.workload_id)
    return tuple(victims)


def _take_destination(cycle: CycleState, mover: Workload, attempt: Attempt) -> None:
    """Take the place that a job is to move to; without it, whoever it makes room for asks anew."""
    withdraw(cycle, mover)
    stop = attempt.stop
    if stop is not None and stop.beneficiary is not None and not stop.signalled:
        waiting = cycle.workloads.get(stop.beneficiary)
        if waiting is not None:
            withdraw(cycle, waiting)


def _shrink(cycle: CycleState, victim: Workload, attempt: Attempt, freed: set[int]) -> Workload:
    """Promise an elastic job the devices it keeps: its next attempt takes them over."""
    stop, promised = attempt.stop, victim.nomination
    if stop is not None and (stop.why != StopCause.SHRINK_FOR_OTHERS or promised is None):
        return victim  # it goes on nowhere: what it was to keep is others' by now
    kept_before = attempt.placements if promised is None else promised.placements
    kept = tuple(
        replace(one, slice_id=None)
        for rank, one in enumerate(attempt.placements)
        if rank not in freed and any(place_of(one) == place_of(k) for k in kept_before)
    )
    indexes: dict[str, int] = {}
    renumbered = []
    for one in kept:
        index = indexes.get(one.role, 0)
        indexes[one.role] = index + 1
        renumbered.append(replace(one, index=index))
    return cycle.put(
        replace(
            victim,
            nomination=Nomination(
                placements=tuple(renumbered),
                hold_class=attempt.hold_class,
                victims=(attempt.attempt_id,),
                decided_ms=cycle.now_ms,
            ),
        )
    )


def admit_cleared(cycle: CycleState) -> None:
    """Admit every nominee whose victims have all ended; withdraw where the place is gone."""
    live = cycle.index.attempts.keys()
    for workload, nomination in cycle.promised():
        if not all(_stands(cycle, one) for one in nomination.placements):
            withdraw(cycle, workload)
        elif not live.isdisjoint(nomination.victims):
            continue
        elif not all(cycle.capacity.is_free(one) for one in nomination.placements):
            # Somebody else holds it under the name of another node.
            withdraw(cycle, workload)
        else:
            # A shrunk elastic job is queued: its own attempt was the victim.
            shrunk = workload.state is State.QUEUED
            nominee = move(workload, State.NOMINATED, cycle.now_ms) if shrunk else workload
            admit(cycle, nominee, nomination.placements, nomination.hold_class)


def _stands(cycle: CycleState, placement: WorkerPlacement) -> bool:
    node = cycle.nodes.get(placement.node_id)
    if node is None or node.state is not NodeState.READY:
        return False
    known = {device.device_id for device in node.devices}
    return known.issuperset(placement.device_ids)
