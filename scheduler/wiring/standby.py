"""Ready and waiting while another scheduler leads the same SQLite store: an upgrade hands over.

The store is not opened before that one has ended: there is one writer, and a newer version would
change the tables under the older one. All that takes long is done meanwhile. Read `serving` first.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import socket
from http import HTTPStatus

from gpucommons.gpu.connections.listening import listen_tcp
from gpucommons.scheduler.errors import Unavailable
from gpucommons.scheduler.models import ErrorView
from gpucommons.scheduler.store.opening import check_tables, is_led
from gpucommons.scheduler.wiring import forwarding
from gpucommons.scheduler.wiring.app import read_config
from gpucommons.scheduler.wiring.forwarding import Forwarding
from gpucommons.scheduler.wiring.options import SchedulerSettings

_LOG = logging.getLogger(__name__)

#: Between two tries.
_TRY_S = 0.1
#: What a start imports step by step, and nobody then waits for.
_MODULES = (
    "alembic.command",
    "gpucommons.scheduler.api.server",
    "gpucommons.scheduler.store.sql.store",
    "gpucommons.scheduler.wiring.rest_api",
)
_CLUSTER_MODULES = ("gpucommons.scheduler.wiring.cluster_parts",)
_HUB_MODULES = ("gpucommons.scheduler.pages.server",)

_READY = (b"/readyz", b"/livez")
_LATER = "Another scheduler is being replaced: try again in a moment."


async def until_led_no_more(
    settings: SchedulerSettings,
    listening: socket.socket,
    stop: asyncio.Event,
    at_end: contextlib.AsyncExitStack,
) -> bool:
    """Wait until nobody leads the store; False when told to stop before.

    Probes at the socket are told that we are ready: the one that leads is ended only then. All others'
    requests go on to that one, also those that it still serves when it leads no more. These have a little
    while then, and end ``at_end`` at the latest.
    """
    if not is_led(settings.database):
        return True
    began = asyncio.get_running_loop().time()
    await asyncio.to_thread(_warm, settings)
    with contextlib.ExitStack() as stack:
        # Closed without waiting for callers who keep their connection to the one that led.
        api = Forwarding(
            listening.dup(),
            forwarding.leaders_api(settings.state, own_url=settings.own_url),
            own=_probe,
            unanswered=_LATER_ANSWER,
            most=forwarding.most_calls(),
        )
        at_end.push_async_callback(api.end)
        stack.callback(api.take_no_more)
        if settings.hub is not None and settings.pages_port:
            pages = Forwarding(
                listen_tcp(settings.pages_port, settings.api_host),
                forwarding.leaders_pages(settings.state, own_url=settings.own_url),
                own=lambda _path: None,
                unanswered=_LATER_ANSWER,
                most=forwarding.most_calls() // 2,
            )
            at_end.push_async_callback(pages.end)
            stack.callback(pages.take_no_more)
        _LOG.info("stands by: another scheduler leads %s", settings.state)
        while _is_still_led(settings):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _TRY_S)
            if stop.is_set():
                return False
    stood_s = asyncio.get_running_loop().time() - began
    _LOG.info("takes over after %.1f s", stood_s)
    return True


def _is_still_led(settings: SchedulerSettings) -> bool:
    """What cannot be found out now, for want of a descriptor, is found out at the next try."""
    try:
        return is_led(settings.database)
    except OSError as error:
        _LOG.warning("whether another scheduler still leads is not known: %s", error)
        return True


def _warm(settings: SchedulerSettings) -> None:
    """All that takes long. What this one could not go on with ends it, and not the other."""
    check_tables(settings.database)
    if settings.config is not None:
        read_config(settings.config)
    of_cluster = () if settings.kubernetes is None else _CLUSTER_MODULES
    of_hub = () if settings.hub is None else _HUB_MODULES
    for name in (*_MODULES, *of_cluster, *of_hub):
        importlib.import_module(name)


def _probe(path: bytes) -> bytes | None:
    """Probes are about us."""
    return _response(ready=True) if path in _READY else None


def _response(*, ready: bool) -> bytes:
    """As the API would: probes are content, all others come again."""
    error = Unavailable(_LATER)
    said = ErrorView(error=error.code, message=_LATER, details=[]).model_dump_json()
    status, body = (200, '{"ok":true}') if ready else (error.status, said)
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Retry-After: 1",
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", body]).encode()


_LATER_ANSWER = _response(ready=False)
