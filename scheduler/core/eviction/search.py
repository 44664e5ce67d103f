"""What a search for victims looks for: places for workers, under one policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpucommons.scheduler.core.capacity.node_capacity import NodeCapacity
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.eviction.candidates import EvictionCandidates, candidates_of, held_by
from gpucommons.scheduler.core.eviction.node_trial import NodeEvictionTrial
from gpucommons.scheduler.core.eviction.policies import EvictionPolicy
from gpucommons.scheduler.core.model.demand import Worker, must_have
from gpucommons.scheduler.core.model.evolving import quick
from gpucommons.scheduler.core.model.types import (
    HoldClass,
    NodeId,
    PoolName,
    Spec,
    TeamName,
    WorkerPlacement,
)
from gpucommons.scheduler.core.placement import guaranteed_host_resources
from gpucommons.scheduler.core.placement.eviction_plan import EvictionCandidate

#: The victims, and the place they leave.
Found = tuple[tuple[EvictionCandidate, ...], tuple[WorkerPlacement, ...]]
#: Nodes as searches for the same candidates see them; looked at again where a node has changed.
_TRIALS: Entry[tuple[EvictionCandidates, HoldClass], dict[NodeId, NodeEvictionTrial]] = Entry(
    "trials", Fact.REFRESHED
)


@quick
@dataclass(frozen=True, slots=True)
class Search:
    """Places wanted in a pool, and what may be taken for them."""

    cycle: CycleState
    pool: PoolName
    workers: Sequence[Worker]
    policy: EvictionPolicy
    candidates: EvictionCandidates
    #: Nodes on which no place is looked for.
    excluded: frozenset[NodeId]
    #: The same for all searches of a cycle for these candidates.
    _trials: dict[NodeId, NodeEvictionTrial]
    _held: dict[EvictionCandidate, tuple[TeamName, int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, cycle: CycleState, spec: Spec, pool: PoolName, policy: EvictionPolicy) -> Search:
        """Look for places for what a job must have."""
        excluded: frozenset[NodeId] = frozenset()
        if policy.hold_class is HoldClass.GUARANTEED:
            excluded = guaranteed_host_resources.too_lean(cycle, spec, pool)
        found = candidates_of(cycle, pool, policy, excluded)
        trials = cycle.memo.remember(_TRIALS, (found, policy.hold_class), dict)
        return cls(cycle, pool, must_have(spec), policy, found, excluded, trials)

    def trial(self, node: NodeCapacity) -> NodeEvictionTrial:
        """A node as this search sees it."""
        here = self.candidates.on(node)
        found = self._trials.get(node.node.node_id)
        if found is None or found.here is not here:
            found = self._trials[node.node.node_id] = NodeEvictionTrial(
                self.cycle.capacity, node, here, self.policy.hold_class
            )
        return found

    @property
    def nodes(self) -> Mapping[NodeId, NodeCapacity]:
        """Nodes on which a place is looked for."""
        found = self.candidates.nodes
        if not self.excluded:
            return found
        return {i: node for i, node in found.items() if i not in self.excluded}

    def held(self, candidate: EvictionCandidate) -> tuple[TeamName, int, int]:
        """A candidate's team, and what it holds in its guarantee and in all."""
        if candidate not in self._held:
            use = held_by(self.cycle, candidate)
            team = self.cycle.workloads[candidate.workload_id].spec.team
            self._held[candidate] = (team, use.guaranteed, use.training)
        return self._held[candidate]

    def quota_suffices(self, gone: Iterable[EvictionCandidate]) -> bool:
        """Quota suffices once these are gone."""
        short = self.policy.shortfall
        if not short.anything:
            return True
        guaranteed = training = 0
        for candidate in gone:
            team, in_guarantee, in_all = self.held(candidate)
            if team == self.policy.team:
                guaranteed, training = guaranteed + in_guarantee, training + in_all
        return guaranteed >= short.guaranteed and training >= short.training

    def within_budget(self, taken: Iterable[EvictionCandidate]) -> bool:
        """No team gives more than it may be asked to; what ends anyway is nobody's loss."""
        if self.policy.budget is None:
            return True
        left = dict(self.policy.budget)
        for candidate in taken:
            if not candidate.ending:
                team, _, milli_gpu = self.held(candidate)
                left[team] = left.get(team, 0) - milli_gpu
        return all(milli_gpu >= 0 for milli_gpu in left.values())

    def in_proportion(self, placements: Iterable[WorkerPlacement]) -> bool:
        """Inside a guarantee nobody has more of a node than goes with its GPUs there."""
        return (
            self.policy.hold_class is not HoldClass.GUARANTEED
            or guaranteed_host_resources.are_kept(
                self.cycle, self.policy.team, self.pool, placements
            )
        )
