"""Giving devices to a workload, or promising them while their holders are stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpucommons.gpu.slices import format_milli_gpu, worker_slice
from gpucommons.scheduler.core.cycle_state import stops
from gpucommons.scheduler.core.cycle_state.draft import Draft
from gpucommons.scheduler.core.model.demand import class_of_worker, placed_milli_gpu
from gpucommons.scheduler.core.model.evolving import evolve, quick
from gpucommons.scheduler.core.model.holds import HoldKey
from gpucommons.scheduler.core.model.lifecycle import admitted, is_lease, move
from gpucommons.scheduler.core.model.resources import NodeState
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    AttemptState,
    HoldClass,
    Millis,
    Nomination,
    PoolName,
    State,
    TeamName,
    WorkerPlacement,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.queue import second_turns
from gpucommons.scheduler.core.quota import quota

#: A granted ticket is redeemed by its server within this time, or goes back into line.
REDEEM_WITHIN_MS = 120_000


@quick
@dataclass(frozen=True, slots=True)
class Unit:
    """What can be taken back in one piece: an attempt, one surplus worker, or a promise."""

    workload_id: WorkloadId
    #: Empty for a promise that nothing holds yet.
    keys: tuple[HoldKey, ...]
    #: Work since the last checkpoint, in milli-GPU·ms; 0 where it is ending anyway.
    lost: int
    #: Since when it holds: of equals, the newest goes first.
    since_ms: int
    #: Taking it ends the whole attempt.
    whole: bool = True
    #: It is being stopped already.
    ending: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Devices for a workload, and who has to go first."""

    placements: tuple[WorkerPlacement, ...]
    hold_class: HoldClass
    units: tuple[Unit, ...]
    #: ``reclaim`` from other teams or ``preempt`` inside one.
    why: str
    #: "for nlp (its guarantee)".
    text: str
    #: "guarantee of nlp".
    rule: str


def condemned(draft: Draft) -> set[AttemptId]:
    """Attempts that are to end for somebody who still waits."""
    key = ("condemned",)
    found = draft.searches.get(key)
    if not isinstance(found, set):
        found = draft.searches[key] = {
            attempt_id
            for workload in draft.among(draft.register.nominated)
            if workload.nomination is not None and workload.current is None
            for attempt_id in workload.nomination.victims
        }
    return found


def leaving(draft: Draft) -> dict[AttemptId, tuple[TeamName, PoolName, int]]:
    """What is borrowed by attempts that are being stopped, and which team and pool it leaves."""
    key = ("leaving",)
    found = draft.searches.get(key)
    if not isinstance(found, dict):
        found = draft.searches[key] = {}
        for workload in draft.among(draft.register.stopping):
            _count_leaving(draft, workload, found)
    return found


def _count_leaving(
    draft: Draft, workload: Workload, found: dict[AttemptId, tuple[TeamName, PoolName, int]]
) -> None:
    attempt = workload.current
    if attempt is None or attempt.stop is None or attempt.stop.why == stops.MOVE:
        return
    kept: set[tuple[object, ...]] = set()
    if attempt.stop.why == "resize" and workload.nomination is not None:
        kept = {place_of(one) for one in workload.nomination.placements}
    milli = sum(
        placed_milli_gpu(one)
        for one in attempt.placements
        if class_of_worker(attempt.hold_class, one) is HoldClass.OVER_QUOTA
        and place_of(one) not in kept
    )
    found[attempt.attempt_id] = (workload.spec.team, pool_of(draft, attempt.placements), milli)


def in_order(
    workload: Workload, placements: Sequence[WorkerPlacement]
) -> tuple[WorkerPlacement, ...]:
    """Workers by role and index: the place in this order is a worker's rank."""
    if len(placements) == 1:
        return tuple(placements)
    roles = [role.name for role in workload.spec.roles]
    return tuple(sorted(placements, key=lambda one: (roles.index(one.role), one.index)))


def with_slices(
    attempt_id: AttemptId, placements: Sequence[WorkerPlacement]
) -> tuple[WorkerPlacement, ...]:
    """Name the slice of every worker that has one."""
    return tuple(
        evolve(one, slice_id=worker_slice(attempt_id, rank)) if one.device_ids else one
        for rank, one in enumerate(placements)
    )


def pool_of(draft: Draft, placements: tuple[WorkerPlacement, ...]) -> PoolName:
    """The pool in which these workers lie."""
    return draft.nodes[placements[0].node_id].pool


def admit(
    draft: Draft,
    workload: Workload,
    placements: Sequence[WorkerPlacement],
    hold_class: HoldClass,
) -> Workload:
    """Reserve devices: a new attempt that holds them from now on."""
    _has_its_place(draft, workload)
    if workload.nomination is not None:
        unpromise(draft, workload)
        second_turns.after_a_promise(draft)
    ordered = in_order(workload, placements)
    attempt = _new_attempt(draft, workload, ordered, hold_class)
    lease = is_lease(workload)
    changes = {
        "attempts": (*workload.attempts, attempt),
        "nomination": None,
        "reason": None,
    }
    if lease:
        until_ms = Millis(draft.now_ms + REDEEM_WITHIN_MS)
        moved = move(workload, State.GRANTED, draft.now_ms, redeem_by_ms=until_ms, **changes)
    else:
        moved = admitted(workload, draft.now_ms, **changes)
        draft.admitted.add(workload.workload_id)
    workload = draft.put(moved)
    draft.room.add(workload, attempt)
    quota.count(
        draft.uses, (workload.spec.team, pool_of(draft, attempt.placements)), hold_class, ordered
    )
    held = sum([placed_milli_gpu(one) for one in ordered])
    where = ", ".join(sorted({one.node_id for one in ordered}))
    draft.tell(
        "granted" if lease else "admitted",
        f"{workload.spec.name or 'The notebook'} has {format_milli_gpu(held)} GPU on {where} ({hold_class}).",
        workload,
        data={"hold_class": hold_class, "milli_gpu": held, "attempt": attempt.number},
    )
    return workload


def _has_its_place(draft: Draft, workload: Workload) -> None:
    """Another place was kept for its sake so far."""
    if workload.workload_id in draft.reservations:
        second_turns.after_a_promise(draft)


def _new_attempt(
    draft: Draft,
    workload: Workload,
    ordered: Sequence[WorkerPlacement],
    hold_class: HoldClass,
) -> Attempt:
    attempt_id = AttemptId(next(draft.new_ids))
    return Attempt(
        attempt_id=attempt_id,
        workload_id=workload.workload_id,
        number=len(workload.attempts) + 1,
        # A job starts with this cycle's acts; a lease waits for its server.
        state=AttemptState.RESERVED if is_lease(workload) else AttemptState.STARTING,
        hold_class=hold_class,
        placements=with_slices(attempt_id, ordered),
        reserved_ms=draft.now_ms,
        resumed_from=workload.checkpoint,
    )


def unpromise(draft: Draft, workload: Workload) -> None:
    """Take a nomination's devices out of the room and the team's use."""
    nomination = workload.nomination
    if nomination is None:
        return
    draft.room.unpromise(workload.workload_id)
    draft.misses.clear()
    if workload.current is None:
        key = (workload.spec.team, pool_of(draft, nomination.placements))
        quota.count(draft.uses, key, nomination.hold_class, nomination.placements, sign=-1)


def promise(draft: Draft, workload: Workload) -> None:
    """Put a nomination's devices (back) into the room and the team's use."""
    nomination = workload.nomination
    if nomination is None:
        return
    draft.room.promise(workload)
    if workload.current is None:
        key = (workload.spec.team, pool_of(draft, nomination.placements))
        quota.count(draft.uses, key, nomination.hold_class, nomination.placements)


def nominate(draft: Draft, workload: Workload, plan: Plan) -> Workload:
    """Promise devices and give notice to those who hold them; admit where nobody does."""
    if workload.nomination is not None:
        workload = withdraw(draft, workload)
    victims = _give_notice(draft, workload, plan)
    if not victims:
        return admit(draft, workload, plan.placements, plan.hold_class)
    _has_its_place(draft, workload)
    nomination = Nomination(
        placements=in_order(workload, plan.placements),
        hold_class=plan.hold_class,
        victims=victims,
        decided_ms=draft.now_ms,
    )
    if is_lease(workload):
        workload = draft.put(replace(workload, nomination=nomination))
    else:
        workload = draft.put(move(workload, State.NOMINATED, draft.now_ms, nomination=nomination))
    promise(draft, workload)
    condemned(draft).update(victims)
    _offer_the_rest(draft, plan)
    draft.tell(
        "nominated",
        f"{workload.spec.name or 'The notebook'} is next on devices that are being cleared.",
        workload,
        data={"victims": list(victims), "hold_class": plan.hold_class},
    )
    return workload


def _offer_the_rest(draft: Draft, plan: Plan) -> None:
    """Victims give up more than was asked for: who had its turn before may have a use for it."""
    given = sum(
        placed_milli_gpu(attempt.placements[key.rank])
        for unit in plan.units
        for attempt in [draft.workloads[unit.workload_id].current]
        if attempt is not None and not unit.ending
        for key in unit.keys
    )
    if given > sum(placed_milli_gpu(one) for one in plan.placements):
        second_turns.after_a_notice(draft)


def withdraw(draft: Draft, workload: Workload) -> Workload:
    """Take a promise back; the workload waits on with its age."""
    if workload.nomination is None:
        return workload
    unpromise(draft, workload)
    second_turns.after_a_promise(draft)
    if workload.state is State.NOMINATED:
        return draft.put(move(workload, State.QUEUED, draft.now_ms, nomination=None))
    return draft.put(replace(workload, nomination=None))


def _give_notice(draft: Draft, beneficiary: Workload, plan: Plan) -> tuple[AttemptId, ...]:
    by_workload: dict[WorkloadId, list[Unit]] = {}
    for unit in plan.units:
        by_workload.setdefault(unit.workload_id, []).append(unit)
    victims: list[AttemptId] = []
    for workload_id, units in sorted(by_workload.items()):
        victim = draft.workloads[workload_id]
        attempt = victim.current
        if attempt is None:
            withdraw(draft, victim)
            continue
        if not any(unit.keys for unit in units):
            _take_destination(draft, victim, attempt)
            continue
        victims.append(attempt.attempt_id)
        if any(unit.whole for unit in units):
            if victim.nomination is not None:
                unpromise(draft, victim)
                draft.searches.clear()
                victim = draft.put(replace(victim, nomination=None))
            why = plan.why
        else:
            freed = {key.rank for unit in units for key in unit.keys}
            victim, why = _shrink(draft, victim, attempt, freed), "resize"
        stop = stops.Notice(why, plan.text, plan.rule, beneficiary.workload_id)
        _count_leaving(draft, stops.announce(draft, victim, stop), leaving(draft))
        for one in attempt.placements:
            # What it costs to take is another matter now.
            node = draft.room.nodes.get(one.node_id)
            if node is not None:
                node.touch()
    return tuple(victims)


def _take_destination(draft: Draft, mover: Workload, attempt: Attempt) -> None:
    """Take the place that a job is to move to; without it, whoever it makes room for asks anew."""
    withdraw(draft, mover)
    stop = attempt.stop
    if stop is not None and stop.beneficiary is not None and not stop.signalled:
        waiting = draft.workloads.get(stop.beneficiary)
        if waiting is not None:
            withdraw(draft, waiting)


def _shrink(draft: Draft, victim: Workload, attempt: Attempt, freed: set[int]) -> Workload:
    """Promise an elastic job the devices it keeps: its next attempt takes them over."""
    stop, promised = attempt.stop, victim.nomination
    if stop is not None and (stop.why != "resize" or promised is None):
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
    unpromise(draft, victim)
    draft.searches.clear()
    victim = draft.put(
        replace(
            victim,
            nomination=Nomination(
                placements=tuple(renumbered),
                hold_class=attempt.hold_class,
                victims=(attempt.attempt_id,),
                decided_ms=draft.now_ms,
            ),
        )
    )
    promise(draft, victim)
    return victim


def place_of(one: WorkerPlacement) -> tuple[object, ...]:
    """Where a worker lies, whatever its number."""
    return (one.role, one.node_id, one.device_ids, one.offset)


def admit_cleared(draft: Draft) -> None:
    """Admit every nominee whose victims have all ended; withdraw where the place is gone."""
    live = draft.register.attempts.keys()
    for workload in draft.among(draft.register.nominated):
        if workload.current is not None:
            continue
        nomination = workload.nomination
        if nomination is None:
            continue
        if not all(_stands(draft, one) for one in nomination.placements):
            withdraw(draft, workload)
        elif not live.isdisjoint(nomination.victims):
            continue
        elif not all(draft.room.is_free(one) for one in nomination.placements):
            # Somebody else holds it under the name of another node.
            withdraw(draft, workload)
        else:
            # A shrunk elastic job is queued: its own attempt was the victim.
            shrunk = workload.state is State.QUEUED
            nominee = move(workload, State.NOMINATED, draft.now_ms) if shrunk else workload
            admit(draft, nominee, nomination.placements, nomination.hold_class)


def _stands(draft: Draft, placement: WorkerPlacement) -> bool:
    node = draft.nodes.get(placement.node_id)
    if node is None or node.state is not NodeState.READY:
        return False
    known = {device.device_id for device in node.devices}
    return known.issuperset(placement.device_ids)
