"""What the cluster's autoscaler says of nodes that are asked for, told to those who wait for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpucommons.scheduler.background_tasks.housekeeping import OPERATOR
from gpucommons.scheduler.core.model.intents import NoteFacts, PoolFacts
from gpucommons.scheduler.core.model.types import PoolName
from gpucommons.scheduler.service.service import Service


class ScaleUpText:
    """One pass after the other, from the thread of the housekeeping."""

    def __init__(self, service: Service, said: Callable[[], Mapping[PoolName, str]]) -> None:
        self._service = service
        self._said = said

    def step(self) -> None:
        """One pass: what is news goes to the pools that may get nodes."""
        said = self._said()
        news = {
            pool.name: PoolFacts(
                isolation=pool.isolation,
                simulated=pool.simulated,
                scale_up_text=said.get(pool.name, ""),
            )
            for pool in self._service.loop.cluster.pools.values()
            if pool.growth is not None and said.get(pool.name, "") != pool.scale_up_text
        }
        if news:
            self._service.ask(OPERATOR, NoteFacts(pools=news))
