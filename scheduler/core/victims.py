"""Who has to go so that somebody fits: the fewest, with the least work lost.

A search starts with everything that may be taken being gone, and gives back one holder after the
other, the dearest first, as long as the beneficiary still fits. What cannot be given back is the
victim set: sparing any one of it breaks the fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpucommons.gpu.devices import WHOLE_MILLI_GPU, DeviceId
from gpucommons.scheduler.core.admission import Unit
from gpucommons.scheduler.core.demand import (
    Worker,
    bounds,
    class_of_worker,
    is_block_size,
    placed_milli_gpu,
)
from gpucommons.scheduler.core.draft import Draft
from gpucommons.scheduler.core.holds import FULL, HoldKey, span
from gpucommons.scheduler.core.quota import Use
from gpucommons.scheduler.core.room import NodeRoom, Room
from gpucommons.scheduler.core.stops import FOR_OTHERS
from gpucommons.scheduler.core.types import (
    Attempt,
    AttemptId,
    HoldClass,
    PoolName,
    TeamName,
    WorkerPlacement,
    Workload,
)

#: May this workload's workers of this class be taken?
Takeable = Callable[[Workload, HoldClass], bool]
#: Is there a place once these are gone? Its workers, or ().
Fit = Callable[[Room, Sequence[Unit]], tuple[WorkerPlacement, ...]]


def work_lost(workload: Workload, attempt: Attempt, now_ms: int) -> int:
    """Milli-GPU·ms of work since the last checkpoint that a stop now throws away."""
    if attempt.started_ms is None:
        return 0
    since = attempt.started_ms
    saved = workload.checkpoint
    if saved is not None and saved.attempt_id == attempt.attempt_id:
        since = max(since, saved.at_ms)
    held = sum(placed_milli_gpu(one) for one in attempt.placements)
    return held * max(0, now_ms - since)


def units(draft: Draft, pool: PoolName, takeable: Takeable) -> list[Unit]:
    """Everything in a pool that may be taken, in one fixed order."""
    found: list[Unit] = []
    nodes = {node.node.node_id for node in draft.room.usable(pool)}
    condemned = _condemned(draft)
    for workload_id in sorted(draft.workloads):
        workload = draft.workloads[workload_id]
        attempt, promise = workload.current, workload.nomination
        if attempt is not None:
            # One that lies partly on a node that takes no work cannot be seen to end.
            if all(one.node_id in nodes for one in attempt.placements):
                found.extend(_of_attempt(draft, workload, attempt, takeable, condemned))
        elif (
            promise is not None
            and promise.placements[0].node_id in nodes
            and takeable(workload, promise.hold_class)
        ):
            found.append(Unit(workload.workload_id, (), 0, promise.decided_ms))
    return found


def _of_attempt(
    draft: Draft,
    workload: Workload,
    attempt: Attempt,
    takeable: Takeable,
    condemned: set[AttemptId],
) -> Iterable[Unit]:
    stop = attempt.stop
    resizing = stop is not None and stop.why == "resize"
    final = stop is not None and (stop.signalled or stop.why not in FOR_OTHERS)
    if final and not resizing:
        keys = tuple(HoldKey(attempt.attempt_id, r) for r in range(len(attempt.placements)))
        yield Unit(workload.workload_id, keys, 0, attempt.reserved_ms, ending=True)
        return
    takes = {c: takeable(workload, c) for c in (attempt.hold_class, HoldClass.OVER_QUOTA)}
    if not any(takes.values()):
        return
    # Notice was given for somebody who still waits: it ends without a further loss.
    ending = attempt.attempt_id in condemned
    lost = 0 if ending else work_lost(workload, attempt, draft.now_ms)
    surplus = _surplus(workload, attempt)
    kept = set() if workload.nomination is None else set(map(spot, workload.nomination.placements))
    rest = []
    for rank, one in enumerate(attempt.placements):
        key, may = (
            HoldKey(attempt.attempt_id, rank),
            takes[class_of_worker(attempt.hold_class, one)],
        )
        freed = resizing and spot(one) not in kept
        if freed and (final or may):
            yield Unit(
                workload.workload_id, (key,), 0, attempt.reserved_ms, whole=False, ending=True
            )
        elif rank in surplus and not freed and may:
            yield Unit(workload.workload_id, (key,), lost, attempt.reserved_ms, whole=False)
        else:
            rest.append(key)
    if rest and takes[attempt.hold_class]:
        whole_ending = ending and not resizing
        yield Unit(
            workload.workload_id, tuple(rest), lost, attempt.reserved_ms, ending=whole_ending
        )


def spot(one: WorkerPlacement) -> tuple[object, ...]:
    """Where a worker lies, whatever its number."""
    return (one.role, one.node_id, one.device_ids, one.offset)


def _condemned(draft: Draft) -> set[AttemptId]:
    return {
        attempt_id
        for workload in draft.workloads.values()
        if workload.nomination is not None and workload.current is None
        for attempt_id in workload.nomination.victims
    }


def _surplus(workload: Workload, attempt: Attempt) -> set[int]:
    """Ranks that an elastic job can do without."""
    first = workload.spec.roles[0].name
    low, high = bounds(workload.spec)
    if low == high:
        return set()
    ranks = [
        rank for rank, one in enumerate(attempt.placements) if one.role == first and one.device_ids
    ]
    return set(ranks[low:])


@dataclass(slots=True)
class _Trial:
    """A room in which units are taken away and given back."""

    draft: Draft
    room: Room

    def take(self, unit: Unit) -> None:
        self.room.remove(unit.keys)
        if unit.whole:
            self.room.unpromise(unit.workload_id)

    def give_back(self, unit: Unit) -> None:
        workload = self.draft.workloads[unit.workload_id]
        attempt = workload.current
        if attempt is not None and unit.keys:
            self.room.add(workload, attempt, only={key.rank for key in unit.keys})
        if unit.whole and workload.nomination is not None:
            self.room.promise(workload)


def dearness(unit: Unit) -> tuple[bool, bool, int, int]:
    """What is spared last: what ends anyway, then surplus workers, then little work lost."""
    # Ending ones cost nothing; then a surplus worker before a whole job, least work, newest.
    return (not unit.ending, unit.whole, unit.lost, -unit.since_ms)


def irreducible(
    draft: Draft, room: Room, candidates: Sequence[Unit], fit: Fit
) -> tuple[tuple[Unit, ...], tuple[WorkerPlacement, ...]] | None:
    """Return the units that must go and the place they leave, or None where nothing helps."""
    trial = _Trial(draft, room)
    newest_first = sorted(candidates, key=lambda unit: unit.workload_id, reverse=True)
    gone = sorted(newest_first, key=dearness)
    for unit in gone:
        trial.take(unit)
    place_found = fit(room, gone)
    if not place_found:
        return None
    while True:
        spared = False
        for unit in reversed(gone):
            rest = [one for one in gone if one is not unit]
            trial.give_back(unit)
            found = fit(room, rest)
            if found:
                gone, place_found, spared = rest, found, True
            else:
                trial.take(unit)
        if not spared:
            return tuple(gone), place_found


def cost(taken: Sequence[Unit]) -> tuple[int, int, int, int]:
    """Work lost, how many are stopped anew, how many there are; of equals the newest."""
    lost = {unit.workload_id: unit.lost for unit in taken if not unit.ending}
    newest = max((unit.since_ms for unit in taken), default=0)
    return (sum(lost.values()), len(lost), len(taken), -newest)


def _better(one: Sequence[Unit], other: Sequence[Unit]) -> bool:
    if cost(one) != cost(other):
        return cost(one) < cost(other)
    # Ids grow with time: what was admitted in the same cycle is told apart by them.
    return max((u.workload_id for u in one), default="") > max(
        (u.workload_id for u in other), default=""
    )


def cheapest(
    draft: Draft,
    pool: PoolName,
    candidates: Sequence[Unit],
    fit: Fit,
    workers: Sequence[Worker],
) -> tuple[tuple[Unit, ...], tuple[WorkerPlacement, ...]] | None:
    """Search place by place for a single worker, over the whole pool for a gang."""
    if not candidates:
        return None
    if len(workers) > 1:
        return irreducible(draft, draft.room.fork(), candidates, fit)
    best = None
    for node in draft.room.usable(pool):
        here = [unit for unit in candidates if _touches(draft, unit, node)]
        elsewhere = [unit for unit in candidates if unit not in here]
        for part in _parts(node, workers[0]):
            found = irreducible(draft, _only(draft.room, part), here, fit)
            if found is None and elsewhere:
                # Not devices but quota is short: what must go may hold devices elsewhere.
                found = irreducible(draft, _only(draft.room, part), [*here, *elsewhere], fit)
            if found is not None and (best is None or _better(found[0], best[0])):
                best = found
    return best


def _parts(node: NodeRoom, worker: Worker) -> Iterator[NodeRoom]:
    """Copies of a node, each with one part open that could take the worker."""
    if not 0 < worker.milli_gpu <= WHOLE_MILLI_GPU:
        yield node.fork()
        return
    for device_id in node.devices:
        for offset in _offsets(node, device_id, worker.milli_gpu):
            part = node.fork()
            for other_id, other in part.devices.items():
                shut = FULL if other_id != device_id else FULL & ~span(offset, worker.milli_gpu)
                other.reserved |= shut
                other.headroom |= shut
            yield part


def _offsets(node: NodeRoom, device_id: DeviceId, milli_gpu: int) -> list[int]:
    """Where a share could begin if nothing that can go were there."""
    if is_block_size(milli_gpu):
        return list(range(0, WHOLE_MILLI_GPU, milli_gpu))
    ends = {
        hold.placement.offset + hold.placement.milli_gpu
        for hold in node.holds.values()
        if device_id in hold.placement.device_ids
    }
    return sorted(end for end in {0, *ends} if end + milli_gpu <= WHOLE_MILLI_GPU)


def _touches(draft: Draft, unit: Unit, node: NodeRoom) -> bool:
    if unit.keys:
        return any(key in node.holds for key in unit.keys)
    promise = draft.workloads[unit.workload_id].nomination
    return promise is not None and any(
        one.node_id == node.node.node_id for one in promise.placements
    )


def _only(room: Room, part: NodeRoom) -> Room:
    """Return a room of one node: nothing else takes work."""
    return Room({part.node.node_id: part.fork()}, dict(room.promises))


def use_without(draft: Draft, team: TeamName, pool: PoolName, gone: Sequence[Unit]) -> Use:
    """A team's use in a pool once these units have ended."""
    use = draft.use(team, pool)
    for unit in gone:
        workload = draft.workloads[unit.workload_id]
        if workload.spec.team != team:
            continue
        attempt, promise = workload.current, workload.nomination
        if attempt is not None:
            for key in unit.keys:
                one = attempt.placements[key.rank]
                held = class_of_worker(attempt.hold_class, one)
                use = use.plus(held, -placed_milli_gpu(one))
        elif promise is not None:
            for one in promise.placements:
                use = use.plus(class_of_worker(promise.hold_class, one), -placed_milli_gpu(one))
    return use
