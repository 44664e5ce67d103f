"""What a guarantee includes beside GPUs: their part of the processor and memory of their node.

Work inside a guarantee is never taken back for another team. Could it take more than the part of a
node that goes with its GPUs, an eighth of a GPU with all processors would void everybody else's
guarantee there. So a job is inside only where what it has on each node is in proportion; then what
is left of a node always covers the GPUs that are left of it. Larger work borrows as a whole. A team
that has a pool's guarantees to itself can harm nobody but itself: there any proportion is inside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.capacity.affinity import NONE, Affinity
from gpucommons.scheduler.core.capacity.capacity import Capacity
from gpucommons.scheduler.core.capacity.node_capacity import share_of
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.model.demand import Worker, milli_gpu, must_have, placed_milli_gpu
from gpucommons.scheduler.core.model.holds import Load, load_by_node
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.types import (
    HoldClass,
    NodeId,
    PoolName,
    Role,
    Spec,
    TeamName,
    WorkerPlacement,
    Workload,
)
from gpucommons.scheduler.core.placement.placement import place
from gpucommons.scheduler.core.queue import unused_quota

_NO_NODES: frozenset[NodeId] = frozenset()
#: What workers ask for, each in milli-GPU, of a kind, and beside it.
_Needs = tuple[tuple[int, str | None, Load], ...]
_LEAN: Entry[tuple[PoolName, _Needs], frozenset[NodeId]] = Entry("lean nodes", Fact.REFRESHED)
_LEANEST: Entry[PoolName, Load] = Entry("beside a GPU of the leanest node", Fact.REFRESHED)


def nodes_of(cycle: CycleState, pool: PoolName, kind: str | None = None) -> list[Node]:
    """Nodes of a pool that have GPUs (of a kind) and take work."""
    return [
        capacity.node
        for capacity in cycle.capacity.usable(pool)
        if capacity.node.devices and _has(capacity.node, kind)
    ]


def _has(node: Node, kind: str | None) -> bool:
    return kind is None or any(device.kind == kind for device in node.devices)


def matter(cycle: CycleState, team: TeamName, pool: PoolName) -> bool:
    """Another team has a guarantee here that work out of proportion would void."""
    return any(
        other.name != team and pool in other.quotas and other.quotas[pool].guaranteed_milli_gpu > 0
        for other in cycle.teams.values()
    )


def lean(cycle: CycleState, spec: Spec, pool: PoolName) -> frozenset[NodeId]:
    """Nodes of a pool whose part for one of the workers is less than what it asks for."""
    cpu_milli, memory_mib = _per_gpu(cycle, pool)
    for role in spec.roles:
        size = role.milli_gpu
        if size and (
            role.cpu_milli * WHOLE_MILLI_GPU > cpu_milli * size
            or role.memory_mib * WHOLE_MILLI_GPU > memory_mib * size
        ):
            break
    else:
        return _NO_NODES  # mostly: asked at every turn
    asks = [role for role in spec.roles if role.milli_gpu]
    needs = tuple(
        {(one.milli_gpu, one.gpu_kind, Load(one.cpu_milli, one.memory_mib)) for one in asks}
    )
    return cycle.memo.remember(
        _LEAN,
        (pool, needs),
        lambda: frozenset(
            node.node_id
            for node in nodes_of(cycle, pool)
            if not all(
                share_of(node, milli_gpu).at_least(load)
                for milli_gpu, kind, load in needs
                if _has(node, kind)
            )
        ),
    )


def _per_gpu(cycle: CycleState, pool: PoolName) -> Load:
    """What goes with one GPU of the leanest node."""
    found = cycle.memo.get(_LEANEST, pool)
    if found is None:
        parts = [share_of(node, WHOLE_MILLI_GPU) for node in nodes_of(cycle, pool)]
        found = Load(
            min((part.cpu_milli for part in parts), default=0),
            min((part.memory_mib for part in parts), default=0),
        )
        cycle.memo.keep(_LEANEST, pool, found)
    return found


def most_beside(cycle: CycleState, role: Role, pool: PoolName) -> Load | None:
    """The processor and memory nearest to what a worker asks for; None without such nodes."""
    parts = [share_of(node, role.milli_gpu) for node in nodes_of(cycle, pool, role.gpu_kind)]
    return nearest(parts, Load(role.cpu_milli, role.memory_mib))


def nearest(there: Iterable[Load], asked: Load) -> Load | None:
    """The one of these that leaves most of what is asked for: of processors and of memory."""

    def left(load: Load) -> tuple[int, int, Load]:
        pairs = zip(load, asked, strict=True)
        shares = [min(1000, has * 1000 // wanted) if wanted else 1000 for has, wanted in pairs]
        return min(shares), sum(shares), load

    return max(there, key=left, default=None)


def guarantee_covers(cycle: CycleState, workload: Workload, pool: PoolName) -> bool:
    """What is left of its team's guarantee suffices, and it asks for no more than goes with it."""
    spec = workload.spec
    left = unused_quota.of_guarantee(cycle, spec.team, pool)
    return left >= milli_gpu(must_have(spec)) and may_be_inside(cycle, workload, pool)


def may_be_inside(cycle: CycleState, workload: Workload, pool: PoolName) -> bool:
    """It may use its team's guarantee, however much is left, and asks for no more than goes with it."""
    return unused_quota.entitled(cycle, workload) and may_be_kept(cycle, workload.spec, pool)


def may_be_kept(cycle: CycleState, spec: Spec, pool: PoolName) -> bool:
    """There is a node on which each worker asks for no more than goes with its GPUs."""
    avoided = too_lean(cycle, spec, pool)
    if not avoided:
        return True
    kind = max(spec.roles, key=lambda role: role.milli_gpu).gpu_kind
    return any(node.node_id not in avoided for node in nodes_of(cycle, pool, kind))


def too_lean(cycle: CycleState, spec: Spec, pool: PoolName) -> frozenset[NodeId]:
    """Nodes on which a job may not be inside its guarantee, wherever it lies there."""
    found = lean(cycle, spec, pool)
    return found if found and matter(cycle, spec.team, pool) else _NO_NODES


def are_kept(
    cycle: CycleState, team: TeamName, pool: PoolName, placements: Iterable[WorkerPlacement]
) -> bool:
    """What lies on each node is in proportion to its GPUs there.

    A node without a GPU gives nothing that goes with anybody's GPU.
    """
    there = tuple(placements)
    held: Counter[NodeId] = Counter()
    for one in there:
        held[one.node_id] += placed_milli_gpu(one)
    return all(
        not cycle.nodes[i].devices or share_of(cycle.nodes[i], held[i]).at_least(load)
        for i, load in load_by_node(there).items()
    ) or not matter(cycle, team, pool)


def always_kept(cycle: CycleState, spec: Spec, pool: PoolName) -> bool:
    """Each worker is in proportion on every node, so any of them together are."""
    return not lean(cycle, spec, pool) and all(role.milli_gpu for role in spec.roles)


def place_kept(  # noqa: PLR0913 - what :func:`.placement.place` asks for, and whose it is
    cycle: CycleState,
    spec: Spec,
    pool: PoolName,
    workers: Sequence[Worker],
    optional: Sequence[Worker],
    *,
    affinity: Affinity = NONE,
) -> tuple[WorkerPlacement, ...]:
    """Place work inside a guarantee, in proportion on every node; () where that is impossible."""
    capacity = cycle.capacity
    found = place(capacity, workers, HoldClass.GUARANTEED, pool, optional, affinity=affinity)
    if not found or always_kept(cycle, spec, pool) or are_kept(cycle, spec.team, pool, found):
        return found
    avoided = too_lean(cycle, spec, pool)
    if not avoided:
        return ()
    found = place(
        Capacity({i: node for i, node in capacity.nodes.items() if i not in avoided}),
        workers,
        HoldClass.GUARANTEED,
        pool,
        optional,
        affinity=affinity,
    )
    return found if found and are_kept(cycle, spec.team, pool, found) else ()
