"""Scale-up over time: which nodes an autoscaler is asked for, worked out beside the loop.

It takes as long as a cycle. Which nodes: :mod:`~gpucommons.scheduler.core.whatif.scale_up`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gpucommons.scheduler.core.model.intents import PoolFacts
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Millis, PoolName
from gpucommons.scheduler.core.whatif.scale_up import ScaleUp, arrived_nodes, plan_scale_up
from gpucommons.scheduler.forecast.estimating import AskedNode, UpcomingNode

#: As many times as long as it took, what was worked out holds.
_REST = 9


@dataclass(frozen=True, kw_only=True, slots=True)
class _Look:
    found: ScaleUp = field(default_factory=ScaleUp)
    #: By pool, the oldest first.
    asked: Mapping[PoolName, tuple[AskedNode, ...]] = field(default_factory=dict)


class PeriodicScaleUp:
    """:meth:`step` is called by one thread of the leader; all else from any."""

    def __init__(
        self,
        cluster: Callable[[], Cluster],
        now_ms: Callable[[], Millis],
        now_s: Callable[[], float] = time.monotonic,
        note: Callable[[Mapping[PoolName, PoolFacts]], object] = lambda _: None,
    ) -> None:
        """``note`` puts on record since when nodes are asked for, so that the next leader knows."""
        self._cluster = cluster
        self._now_ms = now_ms
        self._now_s = now_s
        self._note = note
        #: None before the first look; replaced whole, as it is read by other threads.
        self._look: _Look | None = None
        self._rests_until_s = now_s()

    def step(self) -> None:
        """Work out what waiting work needs, never for more than a tenth of the time."""
        cluster, began_s = self._cluster(), self._now_s()
        if not any(pool.growth is not None for pool in cluster.pools.values()):
            self._look = _Look()
            self._put_on_record(cluster)
            return
        if began_s < self._rests_until_s:
            return
        self._look = self._after(self._look, plan_scale_up(cluster, self._now_ms()))
        self._rests_until_s = self._now_s() + _REST * (self._now_s() - began_s)
        self._put_on_record(cluster)

    def _put_on_record(self, cluster: Cluster) -> None:
        asked = {} if self._look is None else self._look.asked
        news = {
            pool.name: PoolFacts(
                isolation=pool.isolation, simulated=pool.simulated, scale_up_since_ms=since_ms
            )
            for pool in cluster.pools.values()
            for since_ms in (tuple(one.since_ms for one in asked.get(pool.name, ())),)
            if since_ms != pool.scale_up_since_ms
        }
        if news:
            self._note(news)

    def _after(self, before: _Look | None, found: ScaleUp) -> _Look:
        """Those that came were asked for first; of those before the first look, what is on record holds."""
        # What a leader asked for in its last moment may not have come on record.
        new = AskedNode(since_ms=self._now_ms(), or_earlier=before is None)
        asked = {
            pool: (
                *known[max(0, len(known) - len(nodes)) :],
                *[new] * (len(nodes) - len(known)),
            )
            for pool, nodes in found.nodes.items()
            for known in (
                (self._on_record(pool) if before is None else before.asked.get(pool, ())),
            )
        }
        return _Look(found=found, asked=asked)

    def _on_record(self, pool: PoolName) -> tuple[AskedNode, ...]:
        known = self._cluster().pools.get(pool)
        return (
            ()
            if known is None
            else tuple(AskedNode(since_ms=at_ms) for at_ms in known.scale_up_since_ms)
        )

    def missing(self) -> Mapping[PoolName, int] | None:
        """How many nodes of each pool are to be brought; those that have come since are not.

        None while nobody has looked yet: what was asked for before a restart may still be needed.
        """
        look = self._look
        return None if look is None else self._missing(look.found)

    def _missing(self, found: ScaleUp) -> Mapping[PoolName, int]:
        cluster = self._cluster()
        arrived = Counter(cluster.nodes[name].pool for name in arrived_nodes(cluster) - found.known)
        left = {pool: len(asked) - arrived[pool] for pool, asked in found.nodes.items()}
        return {pool: count for pool, count in left.items() if count > 0}

    def asked(self) -> Mapping[PoolName, tuple[AskedNode, ...]] | None:
        """Since when each of these is asked for, the oldest first. None while nobody has looked yet."""
        look = self._look
        if look is None:
            return None
        missing = self._missing(look.found)
        return {pool: look.asked.get(pool, ())[-count:] for pool, count in missing.items()}

    def upcoming(self) -> Sequence[UpcomingNode]:
        """The same nodes, each with the time at which it is likely to take work.

        One that is overdue is reckoned with as if it were asked for now: a cloud may have none left.
        """
        look = self._look
        if look is None:
            return ()
        missing = self._missing(look.found)
        pools, asked, nodes = self._cluster().pools, look.asked, look.found.nodes
        now_ms = self._now_ms()
        return tuple(
            UpcomingNode(
                node=node, at_ms=_likely_ms(one.since_ms, _boot_ms(pools.get(pool)), now_ms)
            )
            for pool, count in missing.items()
            for node, one in zip(nodes.get(pool, ())[:count], asked.get(pool, ()), strict=False)
        )


def _likely_ms(since_ms: Millis, boot_ms: int, now_ms: Millis) -> Millis:
    at_ms = since_ms + boot_ms
    return Millis(at_ms if at_ms > now_ms else now_ms + boot_ms)


def _boot_ms(pool: Pool | None) -> int:
    return 0 if pool is None or pool.growth is None else pool.growth.boot_ms
