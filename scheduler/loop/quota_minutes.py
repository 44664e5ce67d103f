"""Who lent what: how large pools and quotas were in a minute, and which of it borrowers held.

Borrowers hold GPUs of a pool, never one team's. So what they hold is shared out over all that was
unused: each team's quota that its own work did not hold by right, and the GPUs in no team's quota. What
teams lent and what came from no team's quota make up what was borrowed. A team may lend to itself: its
jobs borrow what is fixed for its notebooks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from gpucommons.scheduler.core.model.resources import Quota
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import HoldClass, Millis, PoolName, TeamName
from gpucommons.scheduler.core.quota.quota import pool_sizes
from gpucommons.scheduler.store.base import LedgerRow
from gpucommons.scheduler.store.quota_minutes.base import WHOLE_POOL, QuotaMinute

_MINUTE_MS = 60_000

#: Milli-GPU·milliseconds by class of hold and team.
_Held = Mapping[tuple[HoldClass, TeamName], int]


def quota_minutes(
    cluster: Cluster, minutes: Iterable[int], rows: Iterable[LedgerRow]
) -> tuple[QuotaMinute, ...]:
    """Rows of whole minutes, with quotas and nodes as they are now and all that the ledger says was held."""
    held: dict[tuple[int, PoolName], dict[tuple[HoldClass, TeamName], int]] = defaultdict(
        lambda: defaultdict(int)
    )
    for row in rows:
        of_minute, borrowed = held[row.minute_ms, row.pool], row.borrowed_milli_gpu_ms
        of_minute[HoldClass.OVER_QUOTA, row.team] += borrowed
        of_minute[row.hold_class, row.team] += row.held_milli_gpu_ms - borrowed
    sizes = pool_sizes(cluster)
    quotas = {pool: _quotas(cluster, pool) for pool in sizes}
    return tuple(
        found
        for minute_ms in minutes
        for pool, milli_gpu in sizes.items()
        for found in _of_pool(
            Millis(minute_ms), pool, milli_gpu * _MINUTE_MS, quotas[pool], held[minute_ms, pool]
        )
    )


def _quotas(cluster: Cluster, pool: PoolName) -> dict[TeamName, Quota]:
    return {
        team.name: quota
        for team in cluster.teams.values()
        if (quota := team.quotas.get(pool)) is not None
        and quota.fixed_milli_gpu + quota.guaranteed_milli_gpu
    }


def _of_pool(
    minute_ms: Millis, pool: PoolName, size: int, quotas: Mapping[TeamName, Quota], held: _Held
) -> Iterator[QuotaMinute]:
    unused = {team: _unused(team, quota, held) for team, quota in quotas.items()}
    in_quotas = sum(
        (quota.fixed_milli_gpu + quota.guaranteed_milli_gpu) * _MINUTE_MS
        for quota in quotas.values()
    )
    borrowed = sum(
        amount for (hold_class, _), amount in held.items() if hold_class is HoldClass.OVER_QUOTA
    )
    # Nodes that are lost make quotas larger than their pool.
    shared_over = max(sum(unused.values()) + max(0, size - in_quotas), borrowed)
    yield QuotaMinute(minute_ms=minute_ms, pool=pool, team=WHOLE_POOL, size=size)
    so_far = 0
    for team, quota in quotas.items():
        before, so_far = so_far, so_far + unused[team]
        yield QuotaMinute(
            minute_ms=minute_ms,
            pool=pool,
            team=team,
            size=(quota.fixed_milli_gpu + quota.guaranteed_milli_gpu) * _MINUTE_MS,
            # Between two rounded sums: what teams lent in all is never rounded away team by team.
            lent=_part(borrowed, so_far, shared_over) - _part(borrowed, before, shared_over),
        )


def _part(borrowed: int, unused: int, shared_over: int) -> int:
    return borrowed * unused // shared_over if borrowed else 0


def _unused(team: TeamName, quota: Quota, held: _Held) -> int:
    parts = (
        (HoldClass.FIXED, quota.fixed_milli_gpu),
        (HoldClass.GUARANTEED, quota.guaranteed_milli_gpu),
    )
    return sum(max(0, size * _MINUTE_MS - held.get((of, team), 0)) for of, size in parts)
