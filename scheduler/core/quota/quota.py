"""What teams hold and may hold: fixed, guaranteed and borrowed, per pool, parents as sums.

Quotas live on leaf teams; a parent's numbers are the sums of its children's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.model.demand import placed_milli_gpu
from gpucommons.scheduler.core.model.evolving import quick
from gpucommons.scheduler.core.model.holds import class_of_worker
from gpucommons.scheduler.core.model.resources import Block, Node, NodeState, Quota, Team
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import (
    HoldClass,
    NodeId,
    PoolName,
    TeamName,
    WorkerPlacement,
    Workload,
)
from gpucommons.scheduler.errors import Misconfigured, UnknownTeam

NO_QUOTA = Quota()


@quick
@dataclass(frozen=True, slots=True)
class Use:
    """Milli-GPU held, by the quota they count against; processors of work without a GPU."""

    fixed: int = 0
    guaranteed: int = 0
    borrowed: int = 0
    #: Milli-CPU of work that holds no GPU.
    cpu_milli: int = 0

    def plus(self, hold_class: HoldClass, amount: int) -> Use:
        """More (or less, if negative) of one class: milli-GPU, or milli-CPU without a GPU."""
        return Use(
            self.fixed + (amount if hold_class is HoldClass.FIXED else 0),
            self.guaranteed + (amount if hold_class is HoldClass.GUARANTEED else 0),
            self.borrowed + (amount if hold_class is HoldClass.OVER_QUOTA else 0),
            self.cpu_milli + (amount if hold_class is HoldClass.CPU else 0),
        )

    def of(self, hold_class: HoldClass) -> int:
        """The part that counts against one class."""
        return {
            HoldClass.FIXED: self.fixed,
            HoldClass.GUARANTEED: self.guaranteed,
            HoldClass.OVER_QUOTA: self.borrowed,
        }.get(hold_class, 0)

    @property
    def training(self) -> int:
        """What a limit caps."""
        return self.guaranteed + self.borrowed


NO_USE = Use()
Uses = dict[tuple[TeamName, PoolName], Use]


def quota_of(teams: Mapping[TeamName, Team], team: TeamName, pool: PoolName) -> Quota:
    """A leaf team's own quota in a pool; nothing where none is set."""
    found = teams.get(team)
    return NO_QUOTA if found is None else found.quotas.get(pool, NO_QUOTA)


def largest_block(blocks: Iterable[Block], team: TeamName, pool: PoolName) -> int:
    """The team's largest fixed block in a pool: no notebook of it is larger."""
    return max((b.milli_gpu for b in blocks if b.team == team and b.pool == pool), default=0)


def count(
    uses: Uses,
    key: tuple[TeamName, PoolName],
    hold_class: HoldClass,
    placements: Iterable[WorkerPlacement],
    *,
    sign: int = 1,
) -> None:
    """Add (or take away) what placed workers hold."""
    use = uses.get(key, NO_USE)
    for placement in placements:
        worker_class = class_of_worker(hold_class, placement)
        on_cpu = worker_class is HoldClass.CPU
        held = placement.cpu_milli if on_cpu else placed_milli_gpu(placement)
        use = use.plus(worker_class, sign * held)
    uses[key] = use


def pool_name_of(
    nodes: Mapping[NodeId, Node], placements: tuple[WorkerPlacement, ...]
) -> PoolName | None:
    """The pool in which an attempt lies."""
    node = nodes.get(placements[0].node_id) if placements else None
    return None if node is None else node.pool


def count_workload(
    uses: Uses, nodes: Mapping[NodeId, Node], workload: Workload, *, sign: int = 1
) -> None:
    """Add (or take away) what a workload holds or has been promised."""
    attempt, nomination = workload.current, workload.nomination
    if attempt is not None:
        held, hold_class = attempt.placements, attempt.hold_class
    elif nomination is not None:
        held, hold_class = nomination.placements, nomination.hold_class
    else:
        return
    pool = pool_name_of(nodes, held)
    if pool is not None:
        count(uses, (workload.spec.team, pool), hold_class, held, sign=sign)


def count_change(
    uses: Uses, nodes: Mapping[NodeId, Node], before: Workload | None, after: Workload | None
) -> None:
    """Count what a workload holds now instead of what it held before."""
    for workload, sign in ((before, -1), (after, 1)):
        if workload is not None:
            count_workload(uses, nodes, workload, sign=sign)


def uses(nodes: Mapping[NodeId, Node], workloads: Iterable[Workload]) -> Uses:
    """What every team holds or has been promised, per pool."""
    found: Uses = {}
    for workload in workloads:
        count_workload(found, nodes, workload)
    return found


def children(teams: Mapping[TeamName, Team], team: TeamName) -> tuple[Team, ...]:
    """Teams directly below."""
    return tuple(one for one in teams.values() if one.parent == team)


def leaves(teams: Mapping[TeamName, Team], team: TeamName) -> tuple[TeamName, ...]:
    """Leaf teams below, or the team itself."""
    below = children(teams, team)
    if not below:
        return (team,)
    return tuple(leaf for child in below for leaf in leaves(teams, child.name))


def summed_quota(teams: Mapping[TeamName, Team], team: TeamName, pool: PoolName) -> Quota:
    """A team's quota with everything below it; a limit only where every leaf has one."""
    parts = [quota_of(teams, leaf, pool) for leaf in leaves(teams, team)]
    limits = [part.limit_milli_gpu for part in parts]
    known = [limit for limit in limits if limit is not None]
    return Quota(
        fixed_milli_gpu=sum(part.fixed_milli_gpu for part in parts),
        guaranteed_milli_gpu=sum(part.guaranteed_milli_gpu for part in parts),
        limit_milli_gpu=sum(known) if len(known) == len(limits) else None,
        over_quota_weight=sum(part.over_quota_weight for part in parts),
    )


def summed_use(uses: Uses, teams: Mapping[TeamName, Team], team: TeamName, pool: PoolName) -> Use:
    """What a team and everything below it hold."""
    parts = [uses.get((leaf, pool), NO_USE) for leaf in leaves(teams, team)]
    return Use(
        sum(part.fixed for part in parts),
        sum(part.guaranteed for part in parts),
        sum(part.borrowed for part in parts),
        sum(part.cpu_milli for part in parts),
    )


def check_tree(teams: Mapping[TeamName, Team]) -> None:
    """Refuse a tree with unknown parents, cycles, or quotas above the leaves.

    Raises UnknownTeam or Misconfigured with the names that must change.
    """
    for team in teams.values():
        path = [team.name]
        parent = team.parent
        while parent is not None:
            if parent not in teams:
                message = (
                    f"{path[-1]} names the parent {parent}, which is no team. Create it first."
                )
                raise UnknownTeam(message)
            if parent in path:
                message = (
                    f"Parents form a circle: {' → '.join([*path, parent])}. Change one of them."
                )
                raise Misconfigured(message)
            path.append(parent)
            parent = teams[parent].parent
        below = children(teams, team.name)
        if below and any(quota != NO_QUOTA for quota in team.quotas.values()):
            message = (
                f"{team.name} has teams below it ({', '.join(child.name for child in below)}):"
                " quotas belong to those, and their sum is the parent's."
            )
            raise Misconfigured(message)


def effective_guarantees(
    nodes: Iterable[Node], blocks: Iterable[Block], teams: Mapping[TeamName, Team], pool: PoolName
) -> dict[TeamName, int]:
    """Guarantees of a pool's teams: as saved, or shrunk pro rata when nodes are lost.

    Fixed quota comes first: only what lies outside blocks backs guarantees.
    """
    usable = {node.node_id for node in nodes if node.pool == pool and backs_quotas(node)}
    devices = sum(len(node.devices) for node in nodes if node.node_id in usable)
    blocked = sum(block.milli_gpu for block in blocks if block.node_id in usable)
    outside = max(0, devices * WHOLE_MILLI_GPU - blocked)
    saved = {
        team.name: team.quotas[pool].guaranteed_milli_gpu
        for team in teams.values()
        if pool in team.quotas and team.quotas[pool].guaranteed_milli_gpu
    }
    return pro_rata(saved, outside)


def pro_rata(saved: dict[TeamName, int], there: int) -> dict[TeamName, int]:
    """Guarantees as saved, or each its part of what is there where that is less."""
    promised = sum(saved.values())
    if promised <= there:
        return saved
    return {team: milli * there // promised for team, milli in saved.items()}


def backs_quotas(node: Node) -> bool:
    """Whether a node is there: one that is lost or fenced holds up no quota."""
    return node.state in {NodeState.READY, NodeState.CORDONED}


def pool_sizes(cluster: Cluster) -> dict[PoolName, int]:
    """GPUs of each pool's nodes that are there, in milli-GPU."""
    found = dict.fromkeys(cluster.pools, 0)
    for node in cluster.nodes.values():
        if node.pool in found and backs_quotas(node):
            found[node.pool] += len(node.devices) * WHOLE_MILLI_GPU
    return found
