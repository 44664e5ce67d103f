"""Starts and stops notebook servers through the hub, as the loop's acts say.

Acts come again each cycle while they are due, so each lease has at most one task of a kind here;
what fails is tried again with growing pauses, for a start until the grant expires.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from gpucommons.scheduler.core.leases import RELEASED
from gpucommons.scheduler.core.lifecycle import LEASES_REMEMBERED_MS
from gpucommons.scheduler.core.orders import RestartServer, StartServer, StopServer
from gpucommons.scheduler.core.types import Workload
from gpucommons.scheduler.errors import Unavailable
from gpucommons.scheduler.hub import HubRefused

log = logging.getLogger("gpucommons.scheduler.servers")

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 10.0
#: A hub that refuses for good is not asked again before this.
_REFUSED_PAUSE_S = 60.0
#: A server that was started is given so long to redeem its grant before it is started again.
_SETTLE_S = 5.0
#: *Drop to CPU* is asked for by the very server that goes down: it still has to pass the answer on.
_FAREWELL_S = 0.7


class StartsServers(Protocol):
    """The two calls of :class:`gpucommons.scheduler.hub.Hub` that are needed here."""

    async def start_server(self, user: str, server_name: str, options: Mapping[str, Any]) -> None:
        """Start a server; one that runs is fine."""
        ...

    async def stop_server(self, user: str, server_name: str) -> bool:
        """Stop a server; True once it is down."""
        ...


ServerAct = StartServer | StopServer | RestartServer


class Servers:
    """The injected ``on_server_act`` of the loop; works in the asyncio loop it is made in."""

    def __init__(
        self,
        hub: StartsServers,
        *,
        now_ms: Callable[[], int],
        on_down: Callable[[Workload], None],
        on_restarted: Callable[[Workload], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._hub = hub
        self._now_ms = now_ms
        self._on_down = on_down
        self._on_restarted = on_restarted
        self._sleep = sleep
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[ServerAct, asyncio.Task[None]] = {}

    @property
    def busy(self) -> bool:
        """Something is under way."""
        return bool(self._tasks)

    def __call__(self, act: ServerAct, workload: Workload) -> None:
        """Take an act; from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._begin, act, workload)

    def _begin(self, act: ServerAct, workload: Workload) -> None:
        if act in self._tasks:
            return
        match act:
            case StartServer():
                work = self._start(workload)
            case StopServer():
                work = self._stop(workload)
            case RestartServer():
                work = self._restart_without_gpu(workload)
        task = asyncio.create_task(work)
        self._tasks[act] = task
        task.add_done_callback(lambda _: self._tasks.pop(act, None))

    async def _start(self, lease: Workload) -> None:
        spec, until_ms = lease.spec, lease.redeem_by_ms
        options = {"milli_gpu": spec.roles[0].milli_gpu, "ticket": lease.workload_id} | _common(
            lease
        )
        pause_s = _FIRST_PAUSE_S
        while until_ms is None or self._now_ms() < until_ms:
            try:
                await self._hub.start_server(spec.owner, spec.server_name, options)
            except Unavailable as error:
                log.warning("starting %s, trying again: %s", _label(lease), error)
                await self._sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            except HubRefused as error:
                log.warning("the hub does not start %s: %s", _label(lease), error)
                await self._sleep(_REFUSED_PAUSE_S)
                return
            else:
                log.info("started %s", _label(lease))
                await self._sleep(_SETTLE_S)
                return

    async def _stop(self, lease: Workload) -> None:
        attempt = lease.current
        stop = None if attempt is None else attempt.stop
        if stop is not None and stop.why == RELEASED:
            await self._sleep(_FAREWELL_S)
        if not await self._stopped(lease):
            return
        log.info("stopped %s", _label(lease))
        await asyncio.to_thread(self._on_down, lease)

    async def _stopped(self, lease: Workload) -> bool:
        spec, pause_s = lease.spec, _FIRST_PAUSE_S
        while True:
            try:
                if await self._hub.stop_server(spec.owner, spec.server_name):
                    return True
            except Unavailable as error:
                log.warning("stopping %s, trying again: %s", _label(lease), error)
            except HubRefused as error:
                log.warning("the hub does not stop %s: %s", _label(lease), error)
                await self._sleep(_REFUSED_PAUSE_S)
                return False
            await self._sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _restart_without_gpu(self, lease: Workload) -> None:
        spec, pause_s = lease.spec, _FIRST_PAUSE_S
        # After that the act is due no more: whoever wants the server starts it.
        until_ms = self._now_ms() + LEASES_REMEMBERED_MS
        while self._now_ms() < until_ms:
            try:
                await self._hub.start_server(
                    spec.owner, spec.server_name, {"milli_gpu": 0} | _common(lease)
                )
            except Unavailable as error:
                log.warning("restarting %s without GPU, trying again: %s", _label(lease), error)
            except HubRefused as error:
                # "pending stop" passes within seconds; anything else stays the same.
                log.warning("restarting %s without GPU: %s", _label(lease), error)
            else:
                log.info("restarted %s without GPU", _label(lease))
                await asyncio.to_thread(self._on_restarted, lease)
                await self._sleep(_SETTLE_S)
                return
            await self._sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def close(self) -> None:
        """Let go of everything under way; the acts come again after a restart."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _common(lease: Workload) -> dict[str, Any]:
    """Options that both starts have; names of the spawner's ``user_options``."""
    spec = lease.spec
    return {"team": spec.team, "pool": spec.pools[0], "environment": spec.environment}


def _label(lease: Workload) -> str:
    spec = lease.spec
    return f"{spec.owner}/{spec.server_name}" if spec.server_name else str(spec.owner)
