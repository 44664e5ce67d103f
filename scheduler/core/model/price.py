"""What a GPU may cost a job, by its own word and its team's and hub's policy, and which pools cost more.

A pool without a price costs nothing that is known, so no limit keeps anybody from it; nor is a job
without a GPU kept from anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpucommons.scheduler.core.model.demand import on_cpu_only
from gpucommons.scheduler.core.model.resources import Policy, Pool
from gpucommons.scheduler.core.model.types import PoolName, Spec


def limit(spec: Spec, policies: Iterable[Policy]) -> int | None:
    """The least of what its owner, its team and the hub say, in millionths; None = no limit."""
    said = [spec.max_price_micro, *(policy.max_price_micro for policy in policies)]
    return min((one for one in said if one is not None), default=None)


def affordable(
    spec: Spec,
    most_micro: int | None,
    names: Iterable[PoolName],
    pools: Mapping[PoolName, Pool],
    now_ms: int,
) -> tuple[PoolName, ...]:
    """Those of these pools that cost no more now."""
    found = tuple(names)
    if most_micro is None or on_cpu_only(spec):
        return found
    return tuple(
        name
        for name in found
        if name not in pools or (pools[name].price_at(now_ms) or 0) <= most_micro
    )
