"""Scale-up over time: which nodes an autoscaler is asked for, worked out beside the loop.

It takes as long as a cycle. Which nodes: :mod:`~gpucommons.scheduler.core.whatif.scale_up`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Millis, PoolName
from gpucommons.scheduler.core.whatif.scale_up import ScaleUp, arrived_nodes, plan_scale_up
from gpucommons.scheduler.forecast.estimating import UpcomingNode

#: As many times as long as it took, what was worked out holds.
_REST = 9


class PeriodicScaleUp:
    """:meth:`step` is called by one thread of the leader; all else from any."""

    def __init__(
        self,
        cluster: Callable[[], Cluster],
        now_ms: Callable[[], Millis],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._now_ms = now_ms
        self._now_s = now_s
        #: None before the first look.
        self._found: ScaleUp | None = None
        #: Since when each of them was asked for, by pool, the oldest first.
        self._asked: Mapping[PoolName, tuple[Millis, ...]] = {}
        self._rests_until_s = now_s()

    def step(self) -> None:
        """Work out what waiting work needs, never for more than a tenth of the time."""
        cluster, began_s = self._cluster(), self._now_s()
        if not any(pool.growth is not None for pool in cluster.pools.values()):
            self._found, self._asked = ScaleUp(), {}
            return
        if began_s < self._rests_until_s:
            return
        self._found = plan_scale_up(cluster, self._now_ms())
        self._rests_until_s = self._now_s() + _REST * (self._now_s() - began_s)
        self._note(self._found)

    def _note(self, found: ScaleUp) -> None:
        """Those that came were asked for first."""
        now_ms = self._now_ms()
        self._asked = {
            pool: (
                *before[max(0, len(before) - len(nodes)) :],
                *[now_ms] * (len(nodes) - len(before)),
            )
            for pool, nodes in found.nodes.items()
            for before in (self._asked.get(pool, ()),)
        }

    def missing(self) -> Mapping[PoolName, int] | None:
        """How many nodes of each pool are to be brought; those that have come since are not.

        None while nobody has looked yet: what was asked for before a restart may still be needed.
        """
        found, cluster = self._found, self._cluster()
        if found is None:
            return None
        arrived = Counter(cluster.nodes[name].pool for name in arrived_nodes(cluster) - found.known)
        left = {pool: len(asked) - arrived[pool] for pool, asked in found.nodes.items()}
        return {pool: count for pool, count in left.items() if count > 0}

    def asked(self) -> Mapping[PoolName, tuple[Millis, ...]] | None:
        """Since when each of these is asked for, the oldest first. None while nobody has looked yet."""
        missing, asked = self.missing(), self._asked
        if missing is None:
            return None
        return {pool: asked.get(pool, ())[-count:] for pool, count in missing.items()}

    def upcoming(self) -> Sequence[UpcomingNode]:
        """The same nodes, each with the time at which it is likely to take work.

        One that is overdue is reckoned with as if it were asked for now: a cloud may have none left.
        """
        found, missing = self._found, self.missing()
        if found is None or missing is None:
            return ()
        pools, asked, nodes = self._cluster().pools, self._asked, found.nodes
        now_ms = self._now_ms()
        return tuple(
            UpcomingNode(node=node, at_ms=_likely_ms(since_ms, _boot_ms(pools.get(pool)), now_ms))
            for pool, count in missing.items()
            for node, since_ms in zip(
                nodes.get(pool, ())[:count], asked.get(pool, ()), strict=False
            )
        )


def _likely_ms(since_ms: Millis, boot_ms: int, now_ms: Millis) -> Millis:
    at_ms = since_ms + boot_ms
    return Millis(at_ms if at_ms > now_ms else now_ms + boot_ms)


def _boot_ms(pool: Pool | None) -> int:
    return 0 if pool is None or pool.growth is None else pool.growth.boot_ms
