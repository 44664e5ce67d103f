"""What a search for victims looks for: places for workers of one class, by one right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpucommons.scheduler.core.capacity.node_room import NodeRoom
from gpucommons.scheduler.core.cycle_state.draft import Draft
from gpucommons.scheduler.core.eviction.clearing import Case
from gpucommons.scheduler.core.eviction.units import Units, held_by
from gpucommons.scheduler.core.model.demand import Worker, must_have
from gpucommons.scheduler.core.model.types import (
    HoldClass,
    NodeId,
    PoolName,
    Spec,
    TeamName,
    WorkerPlacement,
)
from gpucommons.scheduler.core.placement import proportions
from gpucommons.scheduler.core.placement.admission import Unit

#: Who has to go, and the place they leave.
Found = tuple[tuple[Unit, ...], tuple[WorkerPlacement, ...]]


@dataclass(frozen=True, slots=True)
class Lacking:
    """Quota that a team must get back from its own work before more of it may start."""

    team: TeamName
    #: Milli-GPU in the guarantee.
    guaranteed: int = 0
    #: Milli-GPU below the limit.
    training: int = 0

    @property
    def anything(self) -> bool:
        """Quota is short."""
        return self.guaranteed > 0 or self.training > 0


@dataclass(frozen=True, slots=True)
class Search:
    """Places wanted, and what may be taken for them."""

    draft: Draft
    pool: PoolName
    workers: Sequence[Worker]
    hold_class: HoldClass
    units: Units
    #: Names the right by which units are taken: searches by one right share what they learn.
    right: tuple[object, ...]
    lacking: Lacking
    #: Milli-GPU that may be taken from each team; None = whatever is takeable.
    budget: Mapping[TeamName, int] | None = None
    #: Nodes on which no place is looked for.
    without: frozenset[NodeId] = frozenset()
    _gives: dict[Unit, tuple[TeamName, int, int]] = field(default_factory=dict)

    def case(self, node: NodeRoom) -> Case:
        """A node as this search sees it; the same for all searches of a cycle by this right."""
        key = ("cases", self.pool, *self.right, self.hold_class)
        known = self.draft.searches.get(key)
        if not isinstance(known, dict):
            known = self.draft.searches[key] = {}
        here = self.units.on(node)
        found = known.get(node.node.node_id)
        if not isinstance(found, Case) or found.here is not here:
            found = known[node.node.node_id] = Case(self.draft.room, node, here, self.hold_class)
        return found

    @property
    def nodes(self) -> Mapping[NodeId, NodeRoom]:
        """Nodes on which a place is looked for."""
        found = self.units.nodes
        if not self.without:
            return found
        return {i: node for i, node in found.items() if i not in self.without}

    def gives(self, unit: Unit) -> tuple[TeamName, int, int]:
        """A unit's team, and what it holds in its guarantee and in all."""
        if unit not in self._gives:
            use = held_by(self.draft, unit)
            team = self.draft.workloads[unit.workload_id].spec.team
            self._gives[unit] = (team, use.guaranteed, use.training)
        return self._gives[unit]

    def enough(self, gone: Iterable[Unit]) -> bool:
        """Quota suffices once these are gone."""
        if not self.lacking.anything:
            return True
        guaranteed = training = 0
        for unit in gone:
            team, in_guarantee, in_all = self.gives(unit)
            if team == self.lacking.team:
                guaranteed, training = guaranteed + in_guarantee, training + in_all
        return guaranteed >= self.lacking.guaranteed and training >= self.lacking.training

    def allowed(self, taken: Iterable[Unit]) -> bool:
        """No team gives more than it may be asked to; what ends anyway is nobody's loss."""
        if self.budget is None:
            return True
        left = dict(self.budget)
        for unit in taken:
            if not unit.ending:
                team, _, milli_gpu = self.gives(unit)
                left[team] = left.get(team, 0) - milli_gpu
        return all(milli_gpu >= 0 for milli_gpu in left.values())

    def kept(self, placements: Iterable[WorkerPlacement]) -> bool:
        """Inside a guarantee nobody has more of a node than goes with its GPUs there."""
        return self.hold_class is not HoldClass.GUARANTEED or proportions.are_kept(
            self.draft, self.lacking.team, self.pool, placements
        )


def inside_guarantee(
    spec: Spec, pool: PoolName, units: Units, right: tuple[object, ...], lacking: Lacking
) -> Search:
    """Look for a place inside a guarantee, only on nodes on which a job may be inside it."""
    return Search(
        units.draft,
        pool,
        must_have(spec),
        HoldClass.GUARANTEED,
        units,
        right,
        lacking,
        without=proportions.too_lean(units.draft, spec, pool),
    )
