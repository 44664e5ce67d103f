"""What becomes of the nodes that pools get by demand, as admins see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.resources import Growth, NodeState, Pool
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import PoolName
from gpucommons.scheduler.core.quota.quota import backs_quotas
from gpucommons.scheduler.core.quota.template_nodes import has_arrived
from gpucommons.scheduler.forecast.estimating import AskedNode


def growth_views(
    cluster: Cluster,
    asked: Mapping[PoolName, Sequence[AskedNode]] | None,
    refused: Mapping[PoolName, str],
) -> list[models.GrowthView]:
    """All pools that get nodes by demand, by name. ``asked`` None: nobody has looked yet."""
    return [
        _view(
            cluster,
            pool,
            pool.growth,
            asked=None if asked is None else asked.get(name, ()),
            refused=refused.get(name, ""),
        )
        for name, pool in sorted(cluster.pools.items())
        if pool.growth is not None
    ]


def _view(
    cluster: Cluster, pool: Pool, growth: Growth, *, asked: Sequence[AskedNode] | None, refused: str
) -> models.GrowthView:
    there = [one for one in cluster.nodes.values() if one.pool == pool.name and backs_quotas(one)]
    booting = sorted(one.node_id for one in there if not has_arrived(one, growth))
    cordoned = [
        one for one in there if one.state is NodeState.CORDONED and has_arrived(one, growth)
    ]
    return models.GrowthView(
        pool=pool.name,
        max_nodes=growth.max_nodes,
        nodes=len(there) - len(booting) - len(cordoned),
        cordoned=len(cordoned),
        booting=[*booting],
        asked=None
        if asked is None
        else [
            models.AskedNodeView(
                since_ms=one.since_ms,
                or_earlier=one.or_earlier,
                due_ms=one.since_ms + growth.boot_ms,
            )
            for one in asked
        ],
        said=pool.scale_up_text,
        refused=refused,
    )
