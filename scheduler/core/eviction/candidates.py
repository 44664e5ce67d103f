"""What may be taken back, piece by piece, and what each piece costs its holder.

A candidate is an attempt, one surplus worker of an elastic job, or a promise that nothing holds yet. The
candidates of a pool are looked up node by node and remembered within a cycle; what changes is looked up
anew (a node's holds when the node was touched, a workload's candidates when it is not the same value).
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple

from gpucommons.scheduler.core.capacity.capacity_arrays import free_per_node
from gpucommons.scheduler.core.capacity.node_capacity import NodeCapacity
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.eviction.policies import EvictionPolicy
from gpucommons.scheduler.core.going_on.hibernating import saving_costs_ms
from gpucommons.scheduler.core.lending import lending_pause
from gpucommons.scheduler.core.model.demand import bounds, elastic, place_of, placed_milli_gpu
from gpucommons.scheduler.core.model.eviction_cause import FOR_OTHERS, GOES_ON, StopCause
from gpucommons.scheduler.core.model.holds import Hold, HoldKey, class_of_worker
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    HoldClass,
    NodeId,
    PoolName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.placement.eviction_plan import EvictionCandidate
from gpucommons.scheduler.core.quota.quota import Use

#: To move jobs, so many nodes are looked at for a place: where most is free, least has to move.
_NODES_FOR_MOVES = 64


def work_lost(workload: Workload, attempt: Attempt, now_ms: int, saving_ms: int | None) -> int:
    """Milli-GPU·ms of work since the last checkpoint that a stop now throws away, or that saving costs.

    ``saving_ms``: how long saving and waking its processes take; None where they are not saved.
    """
    if attempt.started_ms is None:
        return 0
    since = attempt.started_ms
    saved = workload.checkpoint
    if saved is not None and saved.attempt_id == attempt.attempt_id:
        since = max(since, saved.at_ms)
    held = sum(placed_milli_gpu(one) for one in attempt.placements)
    spent = max(0, now_ms - since)
    if saving_ms is not None:
        # Nothing of it is done again: only saving and waking it takes its time.
        spent = min(spent, saving_ms)
    return held * spent


def work_lost_in(cycle: CycleState, workload: Workload, attempt: Attempt) -> int:
    """The same of a stop now: saved is who can be, within half of its pool's grace."""
    saving_ms = saving_costs_ms(workload, attempt, cycle.pool_of(attempt).grace_ms)
    return work_lost(workload, attempt, cycle.now_ms, saving_ms)


class _Known(NamedTuple):
    """What was found of a workload as it is, and as somebody waits for its end or not."""

    workload: Workload
    pending: bool
    candidates: tuple[EvictionCandidate, ...]
    by_hold: dict[HoldKey, EvictionCandidate]


class EvictionCandidates:
    """Everything in a pool that may be taken under one policy."""

    def __init__(
        self,
        cycle: CycleState,
        pool: PoolName,
        policy: EvictionPolicy,
        excluded: frozenset[NodeId],
    ) -> None:
        """``excluded``: nodes on which no place is wanted for moves."""
        self.cycle = cycle
        self._policy = policy
        #: Where a place is looked for.
        self.nodes: Mapping[NodeId, NodeCapacity] = {
            node.node.node_id: node for node in cycle.capacity.usable(pool)
        }
        if policy.moves:
            _, free = free_per_node(cycle.capacity, pool, HoldClass.FIXED)
            most = sorted(zip(-free, self.nodes, strict=True))
            wanted = [i for less, i in most if less and i not in excluded]
            near = set(wanted[:_NODES_FOR_MOVES])
            self.nodes = {i: node for i, node in self.nodes.items() if i in near}
        #: Jobs that go on undisturbed are the same to all policies.
        self._whole = cycle.memo.remember(_WHOLE_JOBS, None, dict)
        #: What was found on nodes that have not changed since.
        self._seen: dict[
            NodeId, tuple[NodeCapacity, int, list[tuple[HoldKey | None, EvictionCandidate]]]
        ] = {}
        self._known: dict[WorkloadId, _Known] = {}
        self._all: tuple[tuple[int, int], list[EvictionCandidate]] | None = None

    def of(self, workload_id: WorkloadId) -> tuple[EvictionCandidate, ...]:
        """Candidates of one workload."""
        return self._look_up(workload_id, self.cycle.index.pending_victims).candidates

    def on(self, node: NodeCapacity) -> list[tuple[HoldKey | None, EvictionCandidate]]:
        """Candidates that hold something of a node, hold by hold; promises come without a hold."""
        seen = self._seen.get(node.node.node_id)
        if seen is None or seen[0] is not node or seen[1] != node.version:
            seen = self._seen[node.node.node_id] = (node, node.version, self._look_at(node))
        return seen[2]

    def _look_at(self, node: NodeCapacity) -> list[tuple[HoldKey | None, EvictionCandidate]]:
        found: list[tuple[HoldKey | None, EvictionCandidate]] = []
        pending = self.cycle.index.pending_victims
        for key, hold in self._in_question(node):
            candidate = self._look_up(hold.workload_id, pending).by_hold.get(key)
            if candidate is not None:
                found.append((key, candidate))
        for workload_id in sorted(node.promised_by):
            found.extend(
                (None, candidate) for candidate in self._that_carry_the_promise(workload_id)
            )
        return found

    def _in_question(self, node: NodeCapacity) -> Iterable[tuple[HoldKey, Hold]]:
        """Holds that the policy may ask about: within a team its own, and those that end anyway."""
        team = self._policy.team
        if not self._policy.within_team:
            return node.holds.items()
        ending = self.cycle.index.stopping
        return [
            (key, hold)
            for key, hold in node.holds.items()
            if hold.team == team or hold.workload_id in ending
        ]

    def all(self) -> list[EvictionCandidate]:
        """All candidates, in one fixed order; the caller must not change them."""
        state = self.cycle.state
        if self._all is None or self._all[0] != state:
            nodes = self.nodes.values()
            there = {hold.workload_id for node in nodes for _, hold in self._in_question(node)}
            there.update(one for node in nodes for one in node.promised_by)
            self._all = (state, [candidate for one in sorted(there) for candidate in self.of(one)])
        return self._all[1]

    def nodes_of(self, candidate: EvictionCandidate) -> set[NodeId]:
        """Where a candidate lies."""
        workload = self.cycle.workloads[candidate.workload_id]
        attempt, promise = workload.current, workload.nomination
        found = set()
        if attempt is not None:
            found = {attempt.placements[key.rank].node_id for key in candidate.keys}
        if promise is not None and candidate in self._that_carry_the_promise(candidate.workload_id):
            found |= {one.node_id for one in promise.placements} & self.nodes.keys()
        return found

    def _that_carry_the_promise(self, workload_id: WorkloadId) -> list[EvictionCandidate]:
        """Where a promise may be taken alone, it is that candidate's and no other's."""
        whole = [candidate for candidate in self.of(workload_id) if candidate.whole]
        return [candidate for candidate in whole if not candidate.keys] or whole

    def _look_up(self, workload_id: WorkloadId, awaited: Container[AttemptId]) -> _Known:
        workload = self.cycle.workloads[workload_id]
        known = self._known.get(workload_id)
        attempt = workload.current
        # Somebody waits for its end.
        pending = attempt is not None and attempt.attempt_id in awaited
        if known is None or known.workload is not workload or known.pending is not pending:
            found = tuple(self._split(workload, pending=pending))
            by_hold = {key: candidate for candidate in found for key in candidate.keys}
            known = self._known[workload_id] = _Known(workload, pending, found, by_hold)
        return known

    def _split(self, workload: Workload, *, pending: bool) -> Iterator[EvictionCandidate]:
        attempt, promise = workload.current, workload.nomination
        may_stop = self._policy.may_stop
        if attempt is not None:
            # One that lies partly on a node that takes no work cannot be seen to end.
            if not all(one.node_id in self.nodes for one in attempt.placements):
                return
            if not self._policy.moves and (attempt.stop is not None or elastic(workload.spec)):
                found = self._of_attempt(workload, attempt, pending=pending)
                spared = self._policy.surplus_only
                yield from (one for one in found if one.ending or not (spared and one.whole))
            elif may_stop(workload, attempt.hold_class):
                yield self._whole_job(workload, attempt)
        elif (
            promise is not None
            and promise.placements[0].node_id in self.nodes
            and may_stop(workload, promise.hold_class)
        ):
            yield EvictionCandidate(workload.workload_id, (), 0, promise.decided_ms)

    def _whole_job(self, workload: Workload, attempt: Attempt) -> EvictionCandidate:
        """A job that goes on undisturbed and is taken whole or not at all, under whatever policy."""
        known = self._whole.get(workload.workload_id)
        if known is None or known[0] is not workload:
            lost = work_lost_in(self.cycle, workload, attempt)
            candidate = EvictionCandidate(
                workload.workload_id, _keys(attempt), lost, attempt.reserved_ms
            )
            known = self._whole[workload.workload_id] = (workload, candidate)
        return known[1]

    def _of_attempt(
        self, workload: Workload, attempt: Attempt, *, pending: bool
    ) -> Iterator[EvictionCandidate]:
        stop, promise = attempt.stop, workload.nomination
        resizing = stop is not None and stop.why in GOES_ON
        final = stop is not None and (stop.signalled or stop.why not in FOR_OTHERS)
        if final and not resizing:
            yield from self._that_ends(workload, attempt)
            return
        takes = self._classes_taken(workload, attempt)
        if not any(takes.values()):
            return
        # Notice was given for somebody who still waits: it ends without a further loss.
        lost = 0 if pending else work_lost_in(self.cycle, workload, attempt)
        owner, since_ms = workload.workload_id, attempt.reserved_ms
        surplus = _surplus(workload, attempt)
        kept = set() if promise is None else set(map(place_of, promise.placements))
        rest = []
        for key, one in zip(_keys(attempt), attempt.placements, strict=True):
            may = takes[class_of_worker(attempt.hold_class, one)]
            freed = resizing and place_of(one) not in kept
            if freed and (final or may):
                yield EvictionCandidate(owner, (key,), 0, since_ms, whole=False, ending=True)
            elif key.rank in surplus and not freed and may:
                yield EvictionCandidate(owner, (key,), lost, since_ms, whole=False)
            else:
                rest.append(key)
        moving = stop is not None and stop.why == StopCause.MOVE
        if moving and promise is not None and takes[promise.hold_class]:
            # The place it is to move to may be taken like any promise.
            yield EvictionCandidate(owner, (), 0, promise.decided_ms)
        if rest and takes[attempt.hold_class]:
            ending = pending and not resizing
            yield EvictionCandidate(owner, tuple(rest), lost, since_ms, ending=ending)

    def _that_ends(self, workload: Workload, attempt: Attempt) -> Iterator[EvictionCandidate]:
        # What ends and is not lent at once is not to be had by a borrower.
        to_borrow = self._policy.hold_class is HoldClass.OVER_QUOTA
        if not (to_borrow and lending_pause.would_begin(self.cycle, workload, attempt)):
            keys, since_ms = _keys(attempt), attempt.reserved_ms
            yield EvictionCandidate(workload.workload_id, keys, 0, since_ms, ending=True)

    def _classes_taken(self, workload: Workload, attempt: Attempt) -> dict[HoldClass, bool]:
        """Whether the policy may stop those of its workers that hold in a class."""
        may_stop = self._policy.may_stop
        found = {attempt.hold_class: may_stop(workload, attempt.hold_class)}
        if attempt.stop is not None or any(one.surplus for one in attempt.placements):
            found[HoldClass.OVER_QUOTA] = may_stop(workload, HoldClass.OVER_QUOTA)
        return found


def _keys(attempt: Attempt) -> tuple[HoldKey, ...]:
    return tuple(HoldKey(attempt.attempt_id, rank) for rank in range(len(attempt.placements)))


def _surplus(workload: Workload, attempt: Attempt) -> set[int]:
    """Ranks that an elastic job can do without."""
    low, high = bounds(workload.spec)
    if low == high:
        return set()
    first = workload.spec.roles[0].name
    ranks = [
        number
        for number, one in enumerate(attempt.placements)
        if one.role == first and one.device_ids
    ]
    return set(ranks[low:])


def held_by(cycle: CycleState, candidate: EvictionCandidate) -> Use:
    """What a candidate counts for in its team's use."""
    workload = cycle.workloads[candidate.workload_id]
    attempt, promise = workload.current, workload.nomination
    use = Use()
    if attempt is not None:
        for key in candidate.keys:
            one = attempt.placements[key.rank]
            use = use.plus(class_of_worker(attempt.hold_class, one), placed_milli_gpu(one))
    elif promise is not None:
        for one in promise.placements:
            use = use.plus(class_of_worker(promise.hold_class, one), placed_milli_gpu(one))
    return use


def candidates_of(
    cycle: CycleState,
    pool: PoolName,
    policy: EvictionPolicy,
    excluded: frozenset[NodeId],
) -> EvictionCandidates:
    """Return the candidates under a policy, remembered for the cycle under the policy's name."""
    entry, where = (_MOVABLE, excluded) if policy.moves else (_CANDIDATES, None)
    return cycle.memo.remember(
        entry,
        (pool, policy.name, where),
        lambda: EvictionCandidates(cycle, pool, policy, excluded),
    )


_Asked = tuple[PoolName, tuple[Hashable, ...], frozenset[NodeId] | None]
#: They look again at nodes and workloads that have changed.
_CANDIDATES: Entry[_Asked, EvictionCandidates] = Entry("candidates", Fact.REFRESHED, Fact.RELEASED)
#: Where a place is looked for depends on what is free.
_MOVABLE: Entry[_Asked, EvictionCandidates] = Entry(
    "movable jobs", Fact.REFRESHED, Fact.WORKLOADS, Fact.CAPACITY
)
_WHOLE_JOBS: Entry[None, dict[WorkloadId, tuple[Workload, EvictionCandidate]]] = Entry(
    "whole jobs", Fact.REFRESHED
)
