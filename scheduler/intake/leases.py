"""A slice for a notebook server, and the spec that it becomes."""

from __future__ import annotations

from dataclasses import dataclass

from gpucommons.gpu.slices.slices import format_gpus, format_milli_gpu
from gpucommons.scheduler.core.capacity.node_capacity import share_of
from gpucommons.scheduler.core.model.demand import WhyNoSlices
from gpucommons.scheduler.core.model.resources import Pool, Team
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Kind, PoolName, Role, Spec, TeamName, UserName
from gpucommons.scheduler.core.quota.quota import largest_block
from gpucommons.scheduler.errors import BadRequest, Misconfigured, PolicyRefused, UnknownPool
from gpucommons.scheduler.intake.gpu_memory import memory_of
from gpucommons.scheduler.intake.paying_team import choose_team, names
from gpucommons.scheduler.intake.team_rules import Asked, check_policies
from gpucommons.scheduler.models import LeaseRequest

#: The name of a notebook on the default server.
DEFAULT_NAME = "notebook"


@dataclass(frozen=True, kw_only=True, slots=True)
class Requester:
    """Who asks for a slice, and for whom."""

    by: UserName
    user: UserName
    #: The user's.
    teams: frozenset[TeamName]


def lease_spec(
    request: LeaseRequest, requester: Requester, cluster: Cluster, why_not: WhyNoSlices
) -> Spec:
    """The spec of a lease.

    Raises
    ------
    BadRequest, Misconfigured, Forbidden, UnknownTeam, UnknownPool, PolicyRefused
        With a sentence that names the field or the rule, and what is possible.
    """
    team = choose_team(
        request.team,
        requester.teams,
        cluster,
        usable=lambda team: bool(notebook_pools(team, cluster)),
    )
    if request.gpu_memory_mib is not None:
        request = _by_memory(request, team, cluster, why_not)
    pool = _choose_pool(request, team, cluster)
    _check_size(request, team, pool, cluster, why_not)
    check_policies(Asked(environment=request.environment), team, cluster.policy)
    cpu_milli, memory_mib = host_share(pool, cluster, request.milli_gpu)
    return Spec(
        kind=Kind.NOTEBOOK,
        name=request.server_name or DEFAULT_NAME,
        team=team.name,
        owner=requester.user,
        submitted_by=requester.by,
        pools=(pool,),
        roles=(
            Role(
                name="notebook",
                milli_gpu=request.milli_gpu,
                gpu_kind=request.gpu_kind,
                cpu_milli=cpu_milli,
                memory_mib=memory_mib,
            ),
        ),
        environment=request.environment,
        server_name=request.server_name,
        on_idle=_on_idle(request, cluster.pools[pool]),
        kernels_kept_days=request.kernels_kept_days,
        other_options={name: tuple(values) for name, values in request.other_options.items()},
    )


def _on_idle(request: LeaseRequest, pool: Pool) -> str:
    """What the pool no longer allows counts for nothing: hubs remember it from earlier starts."""
    return request.on_idle if request.on_idle in pool.on_idle else ""


def check_on_idle(on_idle: str, pool: Pool) -> None:
    """Refuse what the pool does not allow for idle notebooks.

    Raises
    ------
    PolicyRefused
        With what it allows.
    """
    if on_idle not in pool.on_idle:
        message = (
            f"The pool {pool.name} does not allow {on_idle} for idle notebooks (on_idle); it allows"
            f" {', '.join(pool.on_idle)}."
        )
        raise PolicyRefused(message)


def _by_memory(
    request: LeaseRequest, team: Team, cluster: Cluster, why_not: WhyNoSlices
) -> LeaseRequest:
    """The same request with the smallest notebook size that has the memory, and its pool."""
    memory_mib = request.gpu_memory_mib or 0
    mine = notebook_pools(team, cluster)
    pools = [pool for pool in mine if request.pool in (None, pool)]
    sizes = [
        (size, pool, memory_of(size, request.gpu_kind, pool, cluster))
        for pool in pools
        for size in cluster.pools[pool].notebook_sizes
        if size <= largest_block(cluster.blocks, team.name, pool) and why_not(pool, size) is None
    ]
    able = [(size, pool) for size, pool, has in sizes if has >= memory_mib]
    if able:
        size, pool = min(able, key=lambda one: one[0])
        return request.model_copy(update={"milli_gpu": size, "pool": pool})
    if not pools:
        return request  # what is wrong with its pool is said where pools are chosen
    most = max((has for _, _, has in sizes), default=0)
    message = (
        f"No notebook of {team.name} has {memory_mib / 1024:.1f} GiB of GPU memory; the largest has"
        f" {most / 1024:.1f} GiB. Take that, or ask an admin for more fixed quota."
    )
    raise Misconfigured(message)


def notebook_pools(team: Team, cluster: Cluster) -> tuple[PoolName, ...]:
    """Pools in which the team has fixed quota."""
    return tuple(
        name
        for name in cluster.pools
        if name in team.quotas and team.quotas[name].fixed_milli_gpu > 0
    )


def _choose_pool(request: LeaseRequest, team: Team, cluster: Cluster) -> PoolName:
    mine = notebook_pools(team, cluster)
    if request.pool is not None:
        if request.pool not in cluster.pools:
            message = f"There is no pool {request.pool!r}. Pools: {names(cluster.pools)}."
            raise UnknownPool(message)
        if request.pool not in mine:
            message = (
                f"{team.name} has no fixed quota for notebooks in pool {request.pool}; it has"
                f" some in: {names(mine)}."
            )
            raise Misconfigured(message)
        return PoolName(request.pool)
    if not mine:
        message = f"{team.name} has no fixed quota for notebooks: ask an admin, or take CPU."
        raise Misconfigured(message)
    able = [
        p for p in mine if request.milli_gpu <= largest_block(cluster.blocks, team.name, p)
    ] or mine
    if len(able) > 1:
        message = (
            f"{team.name} has notebook GPUs in several pools ({names(able)}): name one (pool)."
        )
        raise BadRequest(message)
    return able[0]


def _check_size(
    request: LeaseRequest, team: Team, pool: PoolName, cluster: Cluster, why_not: WhyNoSlices
) -> None:
    asked = format_gpus(request.milli_gpu)
    sizes = sorted(cluster.pools[pool].notebook_sizes)
    if request.milli_gpu not in sizes:
        offered = ", ".join(format_milli_gpu(size) for size in sizes if why_not(pool, size) is None)
        message = f"{asked} is not a notebook size of pool {pool}: it offers {offered}."
        raise Misconfigured(message)
    largest = largest_block(cluster.blocks, team.name, pool)
    if request.milli_gpu > largest:
        message = (
            f"{asked} is more than the largest notebook of {team.name} in pool {pool}, which is"
            f" {format_milli_gpu(largest)}. Take that, or ask an admin for more fixed quota."
        )
        raise Misconfigured(message)
    kinds = {d.kind for n in cluster.nodes.values() if n.pool == pool for d in n.all_devices}
    if request.gpu_kind is not None and request.gpu_kind not in kinds:
        message = f"Pool {pool} has no GPU of kind {request.gpu_kind!r}; it has {names(kinds)}."
        raise Misconfigured(message)
    if (why := why_not(pool, request.milli_gpu)) is not None:
        raise Misconfigured(why)


def host_share(pool: PoolName, cluster: Cluster, milli_gpu: int) -> tuple[int, int]:
    """Processor and memory that come with a slice: its part of the leanest node of the pool."""
    nodes = [n for n in cluster.nodes.values() if n.pool == pool and n.all_devices]
    shares = [share_of(node, milli_gpu) for node in nodes]
    return (
        min((one.cpu_milli for one in shares), default=1),
        min((one.memory_mib for one in shares), default=1),
    )
