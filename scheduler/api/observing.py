"""What every request has in common: a number, by which logs know it; it is counted; the same headers."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Protocol

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpucommons.gpu.log_lines import REQUEST, TRACEPARENT
from gpucommons.scheduler.background_tasks.metrics import Metrics

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
#: What a caller may call a request by, so that its own logs and ours are told together.
_REQUEST_ID = "X-Request-ID"
_CALLED = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


class OpenSpan(Protocol):
    """The span of one request, until it is answered."""

    #: What refers to it, in W3C's form.
    traceparent: str

    def end(self, route: str, status: int) -> None:
        """It was answered; the template of its route, "" for none."""
        ...


class Spans(Protocol):
    """Who traces requests."""

    def begin(
        self, method: str, path: str, headers: Mapping[str, str], request_id: str
    ) -> OpenSpan | None:
        """A span, for a request that gets one."""
        ...


class Observing:
    """ASGI middleware; the outermost one, so that refusals of others count as well."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, spans: Spans | None = None) -> None:
        self._app = app
        self._metrics = metrics
        self._spans = spans

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()
        request_id = _request_id(scope)
        # It stays until the end of the request's own task: what answers failures stands outside of this,
        # and the leader is asked with the headers that came.
        REQUEST.set(request_id)
        MutableHeaders(scope=scope)[_REQUEST_ID] = request_id
        span = self._begun(scope, request_id)
        status = int(HTTPStatus.INTERNAL_SERVER_ERROR)

        async def with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(common_headers(scope))
            await send(message)

        try:
            await self._app(scope, receive, with_headers)
        finally:
            # The router leaves here what it chose; addresses that callers invent have no name.
            route = scope.get("route")
            name = getattr(route, "name", None) or "none"
            self._metrics.request(scope["method"], name, status, time.perf_counter() - begun)
            if span is not None:
                span.end(getattr(route, "path", ""), status)

    def _begun(self, scope: Scope, request_id: str) -> OpenSpan | None:
        if self._spans is None:
            return None
        span = self._spans.begin(scope["method"], scope["path"], Headers(scope=scope), request_id)
        traceparent = "" if span is None else span.traceparent
        TRACEPARENT.set(traceparent)
        if traceparent:
            # What is passed on to the leader belongs to ours.
            MutableHeaders(scope=scope)["traceparent"] = traceparent
        return span


def common_headers(scope: Scope) -> dict[str, str]:
    """What every answer has, once the request has its number."""
    return {**_HEADERS, _REQUEST_ID: Headers(scope=scope)[_REQUEST_ID]}


def _request_id(scope: Scope) -> str:
    asked = Headers(scope=scope).get(_REQUEST_ID, "")
    return asked if _CALLED.fullmatch(asked) else secrets.token_hex(8)
