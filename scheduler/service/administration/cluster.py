"""Use cases about what exists: who am I, pools, nodes, teams."""

from __future__ import annotations

from gpucommons.scheduler import models
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.administration.growth import growth_views
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.service.views.cluster import node_views, pool_views, team_views


def whoami(service: Service, principal: Principal) -> models.WhoAmI:
    """The caller, as the scheduler sees it."""
    authorization.cluster.whoami(principal)
    return models.WhoAmI(
        environments=service.environments.kind,
        name=principal.name,
        teams=sorted(principal.teams),
        admin=principal.admin,
        leads=sorted(principal.leads),
        shared_account=service.settings.shared_account,
    )


def pools(service: Service, principal: Principal) -> models.PoolList:
    """All pools with live numbers."""
    authorization.cluster.pools(principal)
    return models.PoolList(pools=pool_views(service.loop.cluster), now_ms=service.now_ms())


def growth(service: Service, principal: Principal) -> models.GrowthList:
    """What becomes of the nodes that are asked for."""
    authorization.cluster.growth(principal)
    views = growth_views(service.loop.cluster, service.nodes_asked(), service.nodes_refused())
    return models.GrowthList(pools=views, now_ms=service.now_ms())


def nodes(service: Service, principal: Principal) -> models.NodeList:
    """The capacity map."""
    authorization.cluster.nodes(principal)
    views = node_views(principal, service.loop.cluster)
    return models.NodeList(nodes=views, now_ms=service.now_ms())


def teams(service: Service, principal: Principal) -> models.TeamList:
    """All teams; details only of the caller's own."""
    authorization.cluster.teams(principal)
    return models.TeamList(teams=team_views(principal, service.loop.cluster))
