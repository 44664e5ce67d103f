"""What exists on the wire: pools, nodes with what lies on them, teams with their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpucommons.scheduler import models
from gpucommons.scheduler.amount_words import size_words
from gpucommons.scheduler.core.going_on.hibernating import hindrance_in, most_mib_saved_in
from gpucommons.scheduler.core.model.demand import placed_milli_gpu, training_sizes
from gpucommons.scheduler.core.model.holds import class_of_worker
from gpucommons.scheduler.core.model.lifecycle import WAITING_STATES, is_lease
from gpucommons.scheduler.core.model.resources import (
    Node,
    NodeState,
    Pool,
    SlowNode,
    Team,
)
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import (
    Attempt,
    HoldClass,
    PoolName,
    WorkerPlacement,
    Workload,
)
from gpucommons.scheduler.core.queue.run_time_limit import run_left
from gpucommons.scheduler.core.quota import quota
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.configuration import policy_model, quota_model
from gpucommons.scheduler.service.views.visible_names import shows_names


def _held(cluster: Cluster) -> Iterator[tuple[Workload, Attempt, WorkerPlacement]]:
    for workload in cluster.workloads.values():
        attempt = workload.current
        if attempt is not None:
            for placement in attempt.placements:
                yield workload, attempt, placement


# --- pools and nodes -------------------------------------------------------------------------


def pool_views(cluster: Cluster) -> list[models.PoolView]:
    """All pools with live numbers."""
    held = dict.fromkeys(cluster.pools, 0)
    for _, _, placement in _held(cluster):
        node = cluster.nodes.get(placement.node_id)
        if node is not None and node.pool in held and node.state is NodeState.READY:
            held[node.pool] += node.given_out_of(placement.device_ids, placed_milli_gpu(placement))
    return [_pool_view(pool, cluster, held[pool.name]) for pool in cluster.pools.values()]


def _pool_view(pool: Pool, cluster: Cluster, held: int) -> models.PoolView:
    nodes = [node for node in cluster.nodes.values() if node.pool == pool.name]
    total = sum(len(node.devices) * 1000 for node in nodes if node.state is NodeState.READY)
    return models.PoolView(
        name=pool.name,
        gpu_kind=pool.gpu_kind or _kind_of(pool, cluster),
        isolation=pool.isolation,
        simulated=pool.simulated,
        notice_s=pool.notice_ms // 1000,
        grace_s=pool.grace_ms // 1000,
        notice_signal=pool.notice_signal,
        hibernation=pool.hibernation,
        drills=pool.drills,
        hibernation_text=_hibernation_text(pool, cluster),
        on_idle=list(pool.on_idle),
        headroom_milli_gpu=pool.headroom_milli_gpu,
        notebook_sizes=list(pool.notebook_sizes),
        total_milli_gpu=total,
        free_milli_gpu=max(0, total - held),
        out_milli_gpu=sum(len(node.all_devices) * 1000 for node in nodes) - total,
        next_free_ms=_next_free_ms(pool.name, cluster),
        price_micro_per_gpu_h=pool.price_at(cluster.now_ms),
        currency=pool.currency,
    )


def _hibernation_text(pool: Pool, cluster: Cluster) -> str:
    """What becomes of the processes of a job of one worker that is stopped there."""
    nodes = [one for one in cluster.nodes.values() if one.pool == pool.name]
    found = [hindrance_in(pool, one) for one in nodes if one.hibernation is not None]
    if not found:
        return ""
    if all(found):
        return f"Jobs are not hibernated: {found[0]}."
    most_mib = most_mib_saved_in(pool, nodes)
    if most_mib is None:
        most = ""
    else:
        most = f", if that is {size_words(most_mib << 20)} at most (half of the grace has to be enough)"
    return f"A job of one worker goes on where it stopped: its memory is saved when it is stopped{most}."


def _kind_of(pool: Pool, cluster: Cluster) -> str | None:
    """The kind of its devices, where they are all of one."""
    kinds = {d.kind for n in cluster.nodes.values() if n.pool == pool.name for d in n.all_devices}
    return kinds.pop() if len(kinds) == 1 else None


def _next_free_ms(pool: PoolName, cluster: Cluster) -> int | None:
    """The earliest end that is already known: an announced stop, a run limit, an idle return."""
    ends = [
        moment
        for workload, attempt, placement in _held(cluster)
        if placement.device_ids and _lies_in(placement, pool, cluster)
        for moment in _known_ends(workload, attempt, cluster)
    ]
    return min(ends, default=None)


def _lies_in(placement: WorkerPlacement, pool: PoolName, cluster: Cluster) -> bool:
    node = cluster.nodes.get(placement.node_id)
    return node is not None and node.pool == pool


def _known_ends(workload: Workload, attempt: Attempt, cluster: Cluster) -> Iterator[int]:
    if attempt.stop is not None:
        yield attempt.stop.kill_ms
    left = None if is_lease(workload) else run_left(cluster, workload)
    if left is not None and attempt.started_ms is not None:
        yield attempt.started_ms + left
    if workload.idleness is not None and workload.idleness.returns_ms is not None:
        yield workload.idleness.returns_ms


def node_views(principal: Principal, cluster: Cluster) -> list[models.NodeView]:
    """The capacity map."""
    return [node_view(node, principal, cluster) for node in cluster.nodes.values()]


def _device_views(node: Node, principal: Principal, cluster: Cluster) -> list[models.DeviceView]:
    holds: dict[str, list[models.HoldView]] = {one.device_id: [] for one in node.all_devices}
    unhealthy = {
        one.device.device_id: models.UnhealthyView(
            text=one.text, since_ms=one.since_ms, well_since_ms=one.well_since_ms
        )
        for one in node.unhealthy
    }
    for workload, attempt, placement in _held(cluster):
        if placement.node_id == node.node_id:
            view = _hold_view(workload, attempt, placement, (principal, cluster))
            for device_id in placement.device_ids:
                holds.setdefault(device_id, []).append(view)
    return [
        models.DeviceView(
            id=device.device_id,
            index=device.index,
            kind=device.kind,
            memory_mib=device.memory_mib,
            simulated=device.simulated,
            unhealthy=unhealthy.get(device.device_id),
            holds=sorted(holds[device.device_id], key=lambda hold: hold.offset),
        )
        for device in node.all_devices
    ]


def node_view(node: Node, principal: Principal, cluster: Cluster) -> models.NodeView:
    """One node with what lies on its devices."""
    pool = cluster.pools.get(node.pool)
    return models.NodeView(
        id=node.node_id,
        pool=node.pool,
        state=node.state,
        cpu_milli=node.cpu_milli,
        memory_mib=node.memory_mib,
        cpu_is_shared=pool is not None and pool.executor == "local",
        state_text=node.state_text if principal.admin else "",
        leaves_ms=node.leaves_ms,
        driver=node.driver,
        devices=_device_views(node, principal, cluster),
        links=[
            models.LinkView(first=one.first, second=one.second, kind=one.kind) for one in node.links
        ],
        slow=_slow_view(node.slow) if principal.admin and node.slow is not None else None,
        slow_pairs=[
            models.SlowPairView(other=one.other, slow=_slow_view(one.slow))
            for one in (node.slow_pairs if principal.admin else ())
        ],
    )


def _slow_view(slow: SlowNode) -> models.SlowView:
    return models.SlowView(
        percent=slow.percent,
        runs=slow.runs,
        jobs=slow.jobs,
        since_ms=slow.since_ms,
        until_ms=slow.until_ms,
    )


def _hold_view(
    workload: Workload,
    attempt: Attempt,
    placement: WorkerPlacement,
    seen_by: tuple[Principal, Cluster],
) -> models.HoldView:
    principal, cluster = seen_by
    named = shows_names(principal, workload, cluster)
    in_full = authorization.sight.sees(principal, workload.spec.team, workload.spec.owner)
    return models.HoldView(
        workload_id=workload.workload_id if in_full else None,
        name=workload.spec.name if named else None,
        team=workload.spec.team,
        owner=workload.spec.owner if named else "",
        shown_as=_shown_as(workload, attempt, placement),
        offset=placement.offset,
        milli_gpu=placement.milli_gpu,
    )


def _shown_as(workload: Workload, attempt: Attempt, placement: WorkerPlacement) -> str:
    hold_class = class_of_worker(attempt.hold_class, placement)
    if hold_class is HoldClass.FIXED:
        idle = workload.idleness is not None and workload.idleness.idle_since_ms is not None
        return "notebook-idle" if idle else "notebook"
    return "guaranteed" if hold_class is HoldClass.GUARANTEED else "borrowed"


# --- teams -----------------------------------------------------------------------------------


def team_views(principal: Principal, cluster: Cluster) -> list[models.TeamView]:
    """All teams; only names of those that are not the caller's."""
    uses = quota.uses(cluster.nodes, cluster.workloads.values())
    return [_team_view(team, principal, cluster, uses) for team in cluster.teams.values()]


def _team_view(
    team: Team, principal: Principal, cluster: Cluster, uses: quota.Uses
) -> models.TeamView:
    mine = team.name in principal.sees
    if not (mine or principal.admin):
        return models.TeamView(name=team.name, parent=team.parent)
    pools = _pools_of(team, cluster, uses)
    return models.TeamView(
        name=team.name,
        parent=team.parent,
        mine=mine,
        groups=sorted(team.groups),
        members=sorted(team.members),
        leads=sorted(team.leads),
        use=[_use_view(team, pool, cluster, uses) for pool in pools],
        policy=policy_model(team.policy),
        sizes=_sizes(team, cluster, pools),
        managed_by=team.managed_by,
    )


def _sizes(team: Team, cluster: Cluster, pools: Sequence[PoolName]) -> list[int]:
    """What forms offer: what a node of its pools has, and no more than the team may hold there."""
    offered = training_sizes(_largest_node(cluster, pools))
    quotas = [quota.summed_quota(cluster.teams, team.name, pool) for pool in pools]
    limits = [
        found.limit_milli_gpu
        for found in quotas
        if found.limit_milli_gpu is not None or found.fixed_milli_gpu or found.guaranteed_milli_gpu
    ]
    known = [limit for limit in limits if limit is not None]
    if not limits or len(known) < len(limits):
        return list(offered)
    return [size for size in offered if size <= max(known)]


def _largest_node(cluster: Cluster, pools: Sequence[PoolName]) -> int:
    """GPUs of one node; as many as any form offers where no node has come yet."""
    mine = set(pools) or set(cluster.pools)
    return (
        max((len(n.all_devices) for n in cluster.nodes.values() if n.pool in mine), default=0) or 8
    )


def _pools_of(team: Team, cluster: Cluster, uses: quota.Uses) -> Sequence[PoolName]:
    """Pools in which the team, or one below it, has a quota or holds something."""
    leaves = quota.leaves(cluster.teams, team.name)
    return [
        pool
        for pool in cluster.pools
        if any(
            pool in cluster.teams[leaf].quotas or (leaf, pool) in uses
            for leaf in leaves
            if leaf in cluster.teams
        )
    ]


def _use_view(team: Team, pool: PoolName, cluster: Cluster, uses: quota.Uses) -> models.TeamUseView:
    use = quota.summed_use(uses, cluster.teams, team.name, pool)
    leaves = quota.leaves(cluster.teams, team.name)
    return models.TeamUseView(
        pool=pool,
        quota=quota_model(quota.summed_quota(cluster.teams, team.name, pool)),
        fixed_used_milli_gpu=use.fixed,
        guaranteed_used_milli_gpu=use.guaranteed,
        borrowed_milli_gpu=use.borrowed,
        waiting=sum(
            workload.state in WAITING_STATES
            and workload.spec.team in leaves
            # Who may run in several pools waits once, not once in each.
            and pool == next(iter(workload.spec.pools), None)
            for workload in cluster.workloads.values()
        ),
    )
