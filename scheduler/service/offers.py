"""What a user may open as a notebook right now: the options form."""

from __future__ import annotations

from gpucommons.gpu.slices import format_milli_gpu
from gpucommons.scheduler import models
from gpucommons.scheduler.core import quota
from gpucommons.scheduler.core.state import Cluster, Submit
from gpucommons.scheduler.core.types import (
    Pool,
    PoolName,
    State,
    Team,
    TeamName,
    UserName,
    WorkloadId,
)
from gpucommons.scheduler.errors import SchedulerError
from gpucommons.scheduler.intake import lease_spec, notebook_pools
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.leases import last_end, live_leases
from gpucommons.scheduler.service.preview import what_if
from gpucommons.scheduler.service.principal import Principal
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.service.views.leases import lease_view

_ID = WorkloadId("00000000-0000-7000-8000-ffffffffffff")
#: A name no server has, so that a preview never meets the user's own lease.
_PREVIEW_SERVER = "preview.of.offers"


def offers(
    service: Service, principal: Principal, user: str | None, server_name: str
) -> models.OfferList:
    """What the user may open, per team and pool, with the ticket and last end of this server."""
    name = UserName(user if user is not None else principal.name)
    authorization.offers(principal, name)
    cluster = service.loop.cluster
    ticket = next(
        (
            lease
            for lease in live_leases(service)
            if lease.spec.owner == name
            and lease.spec.server_name == server_name
            and lease.state in (State.WAITING, State.GRANTED)
        ),
        None,
    )
    limits = service.settings.idle
    return models.OfferList(
        user=name,
        offers=[
            _offer(service, name, cluster.teams[team], cluster.pools[pool])
            for team in sorted(service.teams_of(principal, name))
            if team in cluster.teams
            for pool in notebook_pools(cluster.teams[team], cluster)
        ],
        now_ms=service.now_ms(),
        ticket=None if ticket is None else lease_view(ticket, principal, cluster, limits),
        last_end=last_end(service, name, server_name),
    )


def _offer(service: Service, user: UserName, team: Team, pool: Pool) -> models.OfferView:
    cluster = service.loop.cluster
    use = quota.uses(cluster.nodes, cluster.workloads.values()).get(
        (team.name, pool.name), quota.Use()
    )
    devices = [
        device
        for node in cluster.nodes.values()
        if node.pool == pool.name
        for device in node.devices
    ]
    fixed = team.quotas[pool.name].fixed_milli_gpu
    return models.OfferView(
        team=team.name,
        pool=pool.name,
        gpu_kind=pool.gpu_kind or (devices[0].kind if devices else None),
        fixed_milli_gpu=fixed,
        fixed_used_milli_gpu=use.fixed,
        sizes=[
            models.SizeView(
                milli_gpu=size,
                memory_mib=min((d.slice_memory_mib(size) for d in devices), default=0),
                availability=availability,
                text=text,
            )
            for size in pool.notebook_sizes
            for availability, text in [_availability(service, user, (team.name, pool.name), size)]
        ],
        isolation=pool.isolation,
        simulated=pool.simulated or any(device.simulated for device in devices),
        idle_after_min=max(1, round(service.settings.idle.idle_after_ms / 60_000)),
    )


def _availability(
    service: Service, user: UserName, where: tuple[TeamName, PoolName], size: int
) -> tuple[models.Availability, str]:
    """Whether a start would get the slice in its cycle, by asking the cycle itself."""
    cluster, (team, pool) = service.loop.cluster, where
    request = models.LeaseRequest(server_name=_PREVIEW_SERVER, team=team, pool=pool, milli_gpu=size)
    try:
        spec = lease_spec(request, user=user, by=user, member_of=frozenset({team}), cluster=cluster)
    except SchedulerError as refusal:
        return "never", str(refusal)
    _, (verdict,) = what_if(
        cluster, [Submit(workload_id=_ID, spec=spec, redeem=True)], service.now_ms()
    )
    if verdict.error is None:
        return "free", "free now"
    return "wait", _left(cluster, team, pool)


def _left(cluster: Cluster, team: TeamName, pool: PoolName) -> str:
    use = quota.uses(cluster.nodes, cluster.workloads.values()).get((team, pool), quota.Use())
    fixed = quota.quota_of(cluster.teams, team, pool).fixed_milli_gpu
    left = format_milli_gpu(max(0, fixed - use.fixed))
    return f"not free now: {team} has {left} of {format_milli_gpu(fixed)} left"
