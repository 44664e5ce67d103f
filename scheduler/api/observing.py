"""What every request has in common: it is counted, and its answer carries the same headers."""

from __future__ import annotations

import time
from http import HTTPStatus

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpucommons.scheduler.background_tasks.metrics import Metrics

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}


class Observing:
    """ASGI middleware; the outermost one, so that refusals of others count as well."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()
        status = int(HTTPStatus.INTERNAL_SERVER_ERROR)

        async def with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        try:
            await self._app(scope, receive, with_headers)
        finally:
            # The router leaves here what it chose; addresses that callers invent have no name.
            name = getattr(scope.get("route"), "name", None) or "none"
            self._metrics.request(scope["method"], name, status, time.perf_counter() - begun)
