"""No request may fill the memory, nor may those of a few keep everybody else waiting.

A body beyond the cap is refused while it arrives. Large ones are read one after another, with the
same time for everybody else between them: reading one, which comes before anybody is asked for a
token, holds up all requests for some hundredths of a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpucommons.scheduler.api.errors import answer
from gpucommons.scheduler.api.limits.concurrent_requests import Turns
from gpucommons.scheduler.errors import NotAuthenticated, SchedulerError, TooLarge, TooManyRequests

#: Of every JSON body.
MAX_JSON_BYTES = 1 << 20
#: Larger ones take turns; jobs and reports of usual length are far below it.
LARGE_BYTES = 64 << 10
#: About twice what it takes to read one.
_S_PER_BYTE = 0.06 / (1 << 20)


class _Refused(HTTPException):
    """An HTTPException, because FastAPI turns any other error while it reads a body into a plain 400."""

    def __init__(self, refusal: SchedulerError) -> None:
        super().__init__(refusal.status, str(refusal))
        self.refusal = refusal


class BodyLimit:
    """ASGI middleware. Paths below ``streamed`` have their own, larger cap."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        streamed: str,
        max_streamed_bytes: int,
        max_bytes: int = MAX_JSON_BYTES,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._app = app
        self._sleep = sleep
        #: Of large bodies: one at a time, and one of each token, so that many of one cost others little.
        self._turns = Turns(of_one=1, together=1)
        self._streamed = streamed
        self._max_streamed_bytes = max_streamed_bytes
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count what arrives."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        streamed = scope["path"].startswith(self._streamed)
        cap = self._max_streamed_bytes if streamed else self._max_bytes
        message = f"The body is larger than {cap >> 20} MiB: send less."
        if _has_body(scope) and not _may_be_known(scope):
            # Bodies are read before anybody is asked who they are: not those of nobody.
            await answer(NotAuthenticated())(scope, receive, _closing(send))
            return
        if _announced(scope) > cap:
            await answer(TooLarge(message))(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            part = await receive()
            if part["type"] != "http.request":
                return part  # its caller has gone: that is no body
            received += len(part.get("body", b""))
            if received > cap:
                raise _Refused(TooLarge(message))
            if received > LARGE_BYTES and not streamed and not part.get("more_body", False):
                await self._take_turn(Headers(scope=scope).get("authorization", ""), received)
            return part

        try:
            await self._app(scope, counted, send)
        except _Refused as error:
            # It was read before FastAPI had it, and so before anything was answered.
            await answer(error.refusal)(scope, receive, send)

    async def _take_turn(self, whose: str, size_bytes: int) -> None:
        try:
            async with self._turns.turn(whose):
                await self._sleep(size_bytes * _S_PER_BYTE)
        except TooManyRequests as error:
            raise _Refused(error) from None


def _may_be_known(scope: Scope) -> bool:
    """Whether there is something to tell the caller by: a token, or an account of this machine."""
    return "peer_uid" in scope.get("state", {}) or "authorization" in Headers(scope=scope)


def _has_body(scope: Scope) -> bool:
    return _announced(scope) > 0 or "transfer-encoding" in Headers(scope=scope)


def _closing(send: Send) -> Send:
    """End the connection with the answer: the rest of the body is not waited for."""

    async def closing(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], (b"connection", b"close")]
        await send(message)

    return closing


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0
