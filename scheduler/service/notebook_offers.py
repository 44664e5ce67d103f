"""What a user may open as a notebook right now: sizes per team and pool, the ticket, the last end."""

from __future__ import annotations

from collections import Counter

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.resources import Pool, Team
from gpucommons.scheduler.core.model.types import Kind, State, UserName, Workload
from gpucommons.scheduler.core.quota import quota
from gpucommons.scheduler.core.whatif import available_notebook_sizes
from gpucommons.scheduler.intake import notebook_pools
from gpucommons.scheduler.models.text.end_words import end_sentence
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.leases import last_end, last_kept, live_leases, view
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.store.base import WorkloadFilter

#: Of so many of the newest notebooks, so many of one size make it the usual one.
_LOOKED_BACK, _OFTEN = 5, 3


def offers(
    service: Service, principal: Principal, user: str | None, server_name: str
) -> models.OfferList:
    """What the user may open, per team and pool, with the ticket and last end of this server."""
    name = UserName(user if user is not None else principal.name)
    authorization.notebooks.offers(principal, name)
    cluster = service.loop.cluster
    ticket = _ticket(service, name, server_name)
    ended, now_ms = last_end(service, name, server_name), service.now_ms()
    teams = sorted(team for team in service.teams_of(principal, name) if team in cluster.teams)
    return models.OfferList(
        user=name,
        offers=[
            _offer(service, cluster.teams[team], cluster.pools[pool], (name, server_name))
            for team in teams
            for pool in notebook_pools(cluster.teams[team], cluster)
        ],
        teams=[str(team) for team in teams],
        now_ms=now_ms,
        ticket=None if ticket is None else view(service, principal, ticket.workload_id),
        last_end=None if ended is None else end_sentence(ended, now_ms)[0],
        ended=ended,
        kept=last_kept(service, name, server_name),
        usual_milli_gpu=_usual(service, name),
    )


def _usual(service: Service, user: UserName) -> int | None:
    """The size of most of the newest notebooks, once there are a few."""
    where = WorkloadFilter(kinds=frozenset({Kind.NOTEBOOK}), owner=user)
    newest = service.store.workloads(where, limit=_LOOKED_BACK).items
    taken = Counter(one.spec.roles[0].milli_gpu for one in newest if one.attempts)
    size, times = max(taken.items(), key=lambda one: (one[1], one[0]), default=(None, 0))
    return size if times >= _OFTEN else None


def _ticket(service: Service, user: UserName, server_name: str) -> Workload | None:
    for lease in live_leases(service):
        if (lease.spec.owner, lease.spec.server_name) == (user, server_name):
            return lease if lease.state in (State.WAITING, State.GRANTED) else None
    return None


def _offer(
    service: Service, team: Team, pool: Pool, server: tuple[UserName, str]
) -> models.OfferView:
    cluster, (user, server_name) = service.loop.cluster, server
    uses = quota.uses(cluster.nodes, cluster.workloads.values())
    devices = [d for n in cluster.nodes.values() if n.pool == pool.name for d in n.all_devices]
    sizes = available_notebook_sizes.sizes(
        cluster, team.name, pool.name, user, server_name=server_name
    )
    return models.OfferView(
        team=team.name,
        pool=pool.name,
        gpu_kind=pool.gpu_kind or (devices[0].kind if devices else None),
        fixed_milli_gpu=team.quotas[pool.name].fixed_milli_gpu,
        fixed_used_milli_gpu=uses.get((team.name, pool.name), quota.Use()).fixed,
        sizes=[
            models.SizeView(
                milli_gpu=size.milli_gpu,
                memory_mib=size.memory_mib,
                availability=size.availability.value,
                text=size.text,
                code=size.code,
                values=dict(size.values),
                lent=size.lent,
            )
            for size in sizes
            if service.why_not(pool.name, size.milli_gpu) is None
        ],
        isolation=pool.isolation,
        simulated=pool.simulated or any(device.simulated for device in devices),
        idle_after_min=max(1, service.settings.idle.idle_after_ms // 60_000),
        idle_after_s=service.settings.idle.idle_after_ms // 1000,
        win_back_s=available_notebook_sizes.win_back_s(pool),
        on_idle=list(pool.on_idle),
        kernels_kept_days=pool.kernels_kept_days,
    )
