"""Starts and stops notebook servers through the hub, as the loop's acts say.

A start names all of a server's options, for the hub keeps none of the last ones beside them: what is
not ours, such as a KubeSpawner profile, is what was chosen with the ticket, else what the last start had.

The hub knows a server by its user and name only, and what is asked of it late meets whatever bears
that name by then. So each request follows an act of the loop and is made only while that act is
still due; whether it is made again, the next cycle says. What fails is followed by growing pauses.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from gpucommons.scheduler.core.events.leases import RELEASED
from gpucommons.scheduler.core.model.actions import (
    RestartServer,
    ServerAct,
    StartServer,
    StopServer,
)
from gpucommons.scheduler.core.model.types import Workload
from gpucommons.scheduler.errors import Unavailable
from gpucommons.scheduler.hub.hub import HubRefused, TooLarge
from gpucommons.scheduler.models import HUB_FIELDS, NOTEBOOK_OPTIONS

log = logging.getLogger("gpucommons.scheduler.hub.servers")

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 10.0
#: A hub that refuses for good is not asked again before this.
_REFUSED_PAUSE_S = 60.0
#: Refusals that are not about this server: a right that the service lacks, a slice not cleared yet.
_PASSING = frozenset({401, 403, 409})
#: Until the loop has heard what an act came to.
_DONE_PAUSE_S = 1.0
_RUNS_ALREADY = (
    "Its turn came while this server ran already: stop the server, then wait in line again"
)
_NEVER_KEPT = NOTEBOOK_OPTIONS | HUB_FIELDS
#: A member may post options of any size and form, which the hub keeps: more is no profile's.
_MAX_KEPT = 64
_MAX_KEPT_BYTES = 8 << 10
#: Of the hub's own words.
_MAX_WORDS = 200
_MAX_PAUSES = 1_000
#: A server that was started is given so long to redeem its grant before it is started again.
_SETTLE_S = 5.0
#: *Drop to CPU* is asked for by the very server that goes down: it still has to pass the answer on.
_FAREWELL_S = 0.7


class StartsServers(Protocol):
    """The calls of :class:`gpucommons.scheduler.hub.hub.Hub` that are needed here."""

    async def options_of(self, user: str, server_name: str) -> Mapping[str, Any]:
        """The options of a server's last start; none where it never ran."""
        ...

    async def start_server(self, user: str, server_name: str, options: Mapping[str, Any]) -> bool:
        """Start a server; False where one runs already."""
        ...

    async def stop_server(self, user: str, server_name: str) -> bool:
        """Stop a server; True once it is down."""
        ...


class Servers:
    """The injected ``on_server_act`` of the loop; works in the asyncio loop it is made in."""

    def __init__(  # noqa: PLR0913 - all that it tells, and whom
        self,
        hub: StartsServers,
        *,
        now_ms: Callable[[], int],
        on_down: Callable[[Workload], None],
        on_restarted: Callable[[Workload], None],
        on_refused: Callable[[Workload, str], None] = lambda _lease, _text: None,
        is_due: Callable[[ServerAct], bool] = lambda _act: True,
        wake: Callable[[], None] = lambda: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._hub = hub
        self._now_ms = now_ms
        self._on_down = on_down
        self._on_restarted = on_restarted
        self._on_refused = on_refused
        #: By what is committed, and while nobody else leads.
        self._is_due = is_due
        #: Has the loop say anew what is due.
        self._wake = wake
        self._sleep = sleep
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[ServerAct, asyncio.Task[None]] = {}
        #: After the next failure of each act.
        self._pauses_s: dict[ServerAct, float] = {}

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
        if len(self._pauses_s) > _MAX_PAUSES:
            self._pauses_s.clear()
        task = asyncio.create_task(self._once(act, workload))
        self._tasks[act] = task
        task.add_done_callback(lambda _: self._end(act))

    def _end(self, act: ServerAct) -> None:
        self._tasks.pop(act, None)
        self._wake()

    async def _once(self, act: ServerAct, lease: Workload) -> None:
        """One request, what it came to, and the pause before the loop may ask for the next."""
        if isinstance(act, StopServer):
            await self._farewell(lease)
        try:
            kept = {} if isinstance(act, StopServer) else await self._not_ours(act, lease)
            # Asked last: the server may have become somebody else's business meanwhile.
            if not self._is_due(act):
                return
            pause_s = await self._ask(act, lease, kept)
        except Unavailable as error:
            log.warning("%s of %s, trying again: %s", _verb(act), _label(lease), error)
            pause_s = None
        except Exception:
            # The loop says the act anew as soon as this ends: without a pause it would never rest.
            if act not in self._pauses_s:
                log.exception("%s of %s, trying again", _verb(act), _label(lease))
            pause_s = None
        if pause_s is None:
            pause_s = self._pauses_s.get(act, _FIRST_PAUSE_S)
            self._pauses_s[act] = min(2 * pause_s, _LONGEST_PAUSE_S)
        else:
            self._pauses_s.pop(act, None)
        await self._sleep(pause_s)

    async def _farewell(self, lease: Workload) -> None:
        attempt = lease.current
        stop = None if attempt is None else attempt.stop
        if stop is not None and stop.why == RELEASED:
            await self._sleep(_FAREWELL_S)

    async def _not_ours(self, act: ServerAct, lease: Workload) -> dict[str, Any]:
        """What others than we handle of the options, for example a profile.

        As it was chosen with the ticket, else as the last start had it.
        """
        chosen = lease.spec.other_options
        if chosen and isinstance(act, StartServer):
            return {
                name: list(values)
                for name, values in chosen.items()
                if values and name.removeprefix("opt-") not in _NEVER_KEPT
            }
        try:
            last = await self._hub.options_of(lease.spec.owner, lease.spec.server_name)
        except TooLarge as error:
            log.warning("%s starts without its other options: %s", _label(lease), error)
            return {}
        kept = {k: v for k, v in last.items() if k.removeprefix("opt-") not in _NEVER_KEPT}
        kept = {key: value for key, value in kept.items() if _is_flat(value)}
        sizes = {key: _encoded_bytes({key: value}) for key, value in kept.items()}
        known = {key: size for key, size in sizes.items() if size is not None}
        if len(known) > _MAX_KEPT or sum(known.values()) > _MAX_KEPT_BYTES:
            log.warning("%s starts without its other options: they are too many", _label(lease))
            return {}
        return {key: kept[key] for key in known}

    async def _ask(self, act: ServerAct, lease: Workload, kept: dict[str, Any]) -> float | None:
        """The pause after it; None where its effect is still to come."""
        try:
            match act:
                case StartServer():
                    return await self._start(act, lease, kept)
                case StopServer():
                    return await self._stop(lease)
                case RestartServer():
                    return await self._restart_without_gpu(lease, kept)
        except HubRefused as error:
            log.warning("the hub refuses the %s of %s: %s", _verb(act), _label(lease), error)
            return await self._refused(act, lease, error)

    async def _start(self, act: StartServer, lease: Workload, kept: dict[str, Any]) -> float:
        if lease.redeem_by_ms is not None and self._now_ms() >= lease.redeem_by_ms:
            return _DONE_PAUSE_S
        spec = lease.spec
        ours = {"milli_gpu": spec.roles[0].milli_gpu, "ticket": lease.workload_id}
        options = kept | ours | _common(lease)
        asked = await self._hub.start_server(spec.owner, spec.server_name, options)
        if asked:
            log.info("started %s", _label(lease))
            return _SETTLE_S
        # Perhaps its user was faster than we, and it takes its slice this moment.
        await self._sleep(_SETTLE_S)
        if self._is_due(act):
            await asyncio.to_thread(self._on_refused, lease, _RUNS_ALREADY)
        return _DONE_PAUSE_S

    async def _stop(self, lease: Workload) -> float | None:
        if not await self._hub.stop_server(lease.spec.owner, lease.spec.server_name):
            return None
        log.info("stopped %s", _label(lease))
        await asyncio.to_thread(self._on_down, lease)
        return _DONE_PAUSE_S

    async def _restart_without_gpu(self, lease: Workload, kept: dict[str, Any]) -> float:
        spec = lease.spec
        options = kept | {"milli_gpu": 0} | _common(lease)
        await self._hub.start_server(spec.owner, spec.server_name, options)
        log.info("restarted %s without GPU", _label(lease))
        await asyncio.to_thread(self._on_restarted, lease)
        return _SETTLE_S

    async def _refused(self, act: ServerAct, lease: Workload, error: HubRefused) -> float | None:
        match act:
            case StartServer() if error.status not in _PASSING:
                text = f"JupyterHub does not start its server: {str(error)[:_MAX_WORDS]}"
                await asyncio.to_thread(self._on_refused, lease, text.rstrip("."))
                return _DONE_PAUSE_S
            case RestartServer():
                return None
        return _REFUSED_PAUSE_S

    async def close(self) -> None:
        """Let go of everything under way; the acts come again after a restart."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _is_flat(value: object) -> bool:
    values = value if isinstance(value, list) else [value]
    return all(isinstance(one, str | int | float) for one in values)


def _encoded_bytes(options: dict[str, Any]) -> int | None:
    """Its size in a request; None where it cannot be posted (NaN, half a surrogate pair)."""
    try:
        return len(json.dumps(options, allow_nan=False, ensure_ascii=False).encode())
    except ValueError:
        return None


def _common(lease: Workload) -> dict[str, Any]:
    """Options that both starts have; names of the spawner's ``user_options``."""
    spec = lease.spec
    chosen: dict[str, Any] = {"on_idle": spec.on_idle} if spec.on_idle else {}
    if spec.kernels_kept_days:
        chosen["kernels_kept_days"] = spec.kernels_kept_days
    return {"team": spec.team, "pool": spec.pools[0], "environment": spec.environment, **chosen}


def _verb(act: ServerAct) -> str:
    return {StartServer: "start", StopServer: "stop", RestartServer: "restart"}[type(act)]


def _label(lease: Workload) -> str:
    spec = lease.spec
    return f"{spec.owner}/{spec.server_name}" if spec.server_name else str(spec.owner)
