"""What would start a waiting workload now: one thing changed at a time, decided by a real cycle.

Nothing is changed for anybody: each way is one step of the core on a value that is thrown away, so
it also counts who is ahead in line and who would be stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from gpucommons.gpu.slices.slices import format_gpus
from gpucommons.scheduler.core.advance import advance
from gpucommons.scheduler.core.capacity.node_capacity import share_of
from gpucommons.scheduler.core.explain.blockers import Blocker, BlockerKind, blockers
from gpucommons.scheduler.core.explain.host_resources import in_words
from gpucommons.scheduler.core.model.demand import (
    PRIORITIES,
    WhyNoSlices,
    bounds,
    milli_gpu,
    must_have,
    pools_that_make,
    sizes_of,
    training_sizes,
)
from gpucommons.scheduler.core.model.holds import Load
from gpucommons.scheduler.core.model.lifecycle import WAITING_STATES, is_final
from gpucommons.scheduler.core.model.resources import Node, Policy
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import (
    Kind,
    Millis,
    PoolName,
    Role,
    Spec,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.placement.guaranteed_host_resources import nearest
from gpucommons.scheduler.core.quota.quota import quota_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Counterfactual:
    """One change, and what it would bring."""

    #: "with 2 GPUs", "on the A100-40", "in pool b", "with priority high".
    change: str
    #: It would have its devices in this very cycle; else once those who are in the way have left.
    at_once: bool = True
    #: The other size per worker, in milli-GPU.
    milli_gpu: int | None = None
    workers: int | None = None
    gpu_kind: str | None = None
    pool: PoolName | None = None
    priority: str | None = None
    over_quota: bool | None = None
    #: Who alone is in the way, and could give back what it holds.
    blocker: Blocker | None = None

    @property
    def text(self) -> str:
        """One sentence."""
        if self.at_once:
            return f"Would start now {self.change}."
        return f"Would be next {self.change}: others would be stopped for it."


def ways(
    cluster: Cluster,
    workload_id: WorkloadId,
    now_ms: Millis,
    why_not: WhyNoSlices,
) -> Iterator[Counterfactual]:
    """The smallest change of each kind that would help, cheapest to give first."""
    workload = cluster.workloads.get(workload_id)
    if workload is None or workload.state not in WAITING_STATES or workload.nomination is not None:
        return
    yield from _without_a_blocker(cluster, workload, now_ms)
    for kind in (
        _smaller,
        _leaner,
        _fewer_workers,
        _other_kinds,
        _other_pools,
        _borrowing,
        _priorities,
    ):
        found: Counterfactual | None = None
        for way, spec in kind(cluster, workload.spec):
            able = pools_that_make(spec.pools, sizes_of(spec), why_not)
            # Another size does not change its pools: who takes one that some of them lack is refused.
            if not able or (way.milli_gpu is not None and able != spec.pools):
                continue
            changed = replace(workload, spec=replace(spec, pools=able))
            at_once = _helps(cluster, changed, now_ms)
            if at_once is not None and (at_once or found is None):
                found = replace(way, at_once=at_once)
            if at_once:
                break
        if found is not None:
            yield found


def _without_a_blocker(
    cluster: Cluster, workload: Workload, now_ms: Millis
) -> Iterator[Counterfactual]:
    """The own idle notebook, lower job or granted ticket, or a team-mate's idle notebook."""

    def starts(without: Cluster, waiting: Workload) -> bool:
        return bool(_helps(without, waiting, now_ms))

    for found in blockers(cluster, workload, starts):
        holder = cluster.workloads[found.holder]
        held = format_gpus(milli_gpu(must_have(holder.spec)))
        whose = f"{holder.spec.owner}'s {_NAMED[found.kind]}"
        change = f"if {whose} gives back its {held}"
        yield Counterfactual(change=change, blocker=found)


_NAMED = {
    BlockerKind.IDLE_NOTEBOOK: "idle notebook",
    BlockerKind.TEAM_NOTEBOOK: "idle notebook",
    BlockerKind.TICKET: "other notebook, which has not started,",
    BlockerKind.JOB: "job of lower priority",
}


def _helps(cluster: Cluster, changed: Workload, now_ms: Millis) -> bool | None:
    """Whether it starts at once, or is next; None where the change does not help."""
    workloads = {**cluster.workloads, changed.workload_id: changed}
    ids = (f"way-{number}" for number in count(1))
    outcome = advance(
        replace(cluster.apart(), workloads=workloads),
        (),
        (),
        now_ms=now_ms,
        new_ids=ids,
        explain=False,
    )
    after = outcome.cluster.workloads.get(changed.workload_id)
    if after is None or is_final(after):
        return None
    if after.current is not None:
        return True
    return False if after.nomination is not None else None


_Options = Iterator[tuple[Counterfactual, Spec]]


def _smaller(cluster: Cluster, spec: Spec) -> _Options:
    """Fewer GPUs for each worker."""
    first, *others = spec.roles
    each = " per worker" if bounds(spec)[0] > 1 or others else ""
    for size in sorted(_offered(cluster, spec), reverse=True):
        # Who asked for memory would not have it in less.
        if 0 < size < first.milli_gpu and not first.gpu_memory_mib:
            way = Counterfactual(change=f"with {format_gpus(size)}{each}", milli_gpu=size)
            yield way, replace(spec, roles=(replace(first, milli_gpu=size), *others))


def _leaner(cluster: Cluster, spec: Spec) -> _Options:
    """With no more processor and memory than goes with its GPUs."""
    if spec.kind is Kind.NOTEBOOK:
        return
    for pool in spec.pools:
        nodes = [one for one in cluster.nodes.values() if one.pool == pool and one.devices]
        roles = tuple(_in_proportion(role, nodes) for role in spec.roles)
        if roles != spec.roles:
            most = max(
                (one for one in roles if one.milli_gpu),
                key=lambda one: (one.cpu_milli, one.memory_mib),
            )
            beside = in_words(Load(most.cpu_milli, most.memory_mib))
            yield (
                Counterfactual(change=f"with {beside} per worker"),
                replace(spec, roles=roles),
            )


def _in_proportion(role: Role, nodes: Sequence[Node]) -> Role:
    parts = [share_of(node, role.milli_gpu) for node in nodes] if role.milli_gpu else []
    asked = Load(role.cpu_milli, role.memory_mib)
    load = asked.lower(nearest(parts, asked) or asked)
    return replace(role, cpu_milli=load.cpu_milli, memory_mib=load.memory_mib)


def _offered(cluster: Cluster, spec: Spec) -> Sequence[int]:
    if spec.kind is not Kind.NOTEBOOK:
        nodes = (node for node in cluster.nodes.values() if node.pool in spec.pools)
        return training_sizes(max((len(node.devices) for node in nodes), default=0))
    pool = cluster.pools.get(spec.pools[0])
    return () if pool is None else pool.notebook_sizes


def _fewer_workers(cluster: Cluster, spec: Spec) -> _Options:
    first, *others = spec.roles
    low, _ = bounds(spec)
    fewer = low - 1
    while fewer > 0:
        way = Counterfactual(
            change=f"with {fewer} worker{'' if fewer == 1 else 's'}", workers=fewer
        )
        role = first if spec.min_workers is not None else replace(first, count=fewer)
        least = None if spec.min_workers is None else fewer
        yield way, replace(spec, roles=(role, *others), min_workers=least)
        fewer //= 2


def _other_kinds(cluster: Cluster, spec: Spec) -> _Options:
    """On another GPU model, where it asks for one."""
    asked = {role.gpu_kind for role in spec.roles if role.gpu_kind}
    there = {
        device.kind
        for node in cluster.nodes.values()
        if node.pool in spec.pools
        for device in node.devices
    }
    for kind in sorted(there - asked) if asked else ():
        roles = tuple(replace(r, gpu_kind=kind) if r.gpu_kind else r for r in spec.roles)
        yield (
            Counterfactual(change=f"on the {kind}", gpu_kind=kind),
            replace(spec, roles=roles),
        )


def _other_pools(cluster: Cluster, spec: Spec) -> _Options:
    """In a pool in which its team has quota of that sort."""
    for pool in sorted(cluster.pools):
        quota = quota_of(cluster.teams, spec.team, pool)
        notebooks = spec.kind is Kind.NOTEBOOK
        able = quota.fixed_milli_gpu if notebooks else quota.limit_milli_gpu != 0
        if pool in spec.pools or not able or spec.team not in cluster.teams:
            continue
        if pool in cluster.teams[spec.team].quotas:
            way = Counterfactual(change=f"in pool {pool}", pool=pool)
            yield way, replace(spec, pools=(pool,))


def _borrowing(cluster: Cluster, spec: Spec) -> _Options:
    if spec.kind is not Kind.NOTEBOOK and not spec.over_quota:
        way = Counterfactual(change="if it may borrow", over_quota=True)
        yield way, replace(spec, over_quota=True)


def _priorities(cluster: Cluster, spec: Spec) -> _Options:
    if spec.kind is Kind.NOTEBOOK:
        return
    team = cluster.teams.get(spec.team)
    rules = (cluster.policy, Policy() if team is None else team.policy)
    for name in sorted(PRIORITIES, key=PRIORITIES.__getitem__):
        higher = PRIORITIES[name] > PRIORITIES[spec.priority]
        if higher and all(name in rule.priorities for rule in rules):
            way = Counterfactual(change=f"with priority {name}", priority=name)
            yield way, replace(spec, priority=name)
