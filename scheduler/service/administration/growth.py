"""What becomes of the nodes that pools get by demand, as admins see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.resources import Growth, Pool
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Millis, PoolName
from gpucommons.scheduler.core.quota.quota import backs_quotas
from gpucommons.scheduler.core.quota.template_nodes import has_arrived


def growth_views(
    cluster: Cluster,
    asked: Mapping[PoolName, Sequence[Millis]] | None,
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
    cluster: Cluster, pool: Pool, growth: Growth, *, asked: Sequence[Millis] | None, refused: str
) -> models.GrowthView:
    there = [one for one in cluster.nodes.values() if one.pool == pool.name and backs_quotas(one)]
    booting = sorted(one.node_id for one in there if not has_arrived(one, growth))
    return models.GrowthView(
        pool=pool.name,
        max_nodes=growth.max_nodes,
        nodes=len(there) - len(booting),
        booting=[*booting],
        asked=None
        if asked is None
        else [
            models.AskedNodeView(since_ms=since_ms, due_ms=since_ms + growth.boot_ms)
            for since_ms in asked
        ],
        said=pool.scale_up_text,
        refused=refused,
    )
