"""No request may fill the memory: a body beyond the cap is refused while it arrives."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpucommons.scheduler.api.errors import answer
from gpucommons.scheduler.errors import TooLarge

#: Of every JSON body.
MAX_JSON_BYTES = 1 << 20


class _TooLong(HTTPException):
    """An HTTPException, because FastAPI turns any other error while it reads a body into a plain 400."""


class BodyLimit:
    """ASGI middleware. Paths below ``streamed`` have their own, larger cap."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        streamed: str,
        max_streamed_bytes: int,
        max_bytes: int = MAX_JSON_BYTES,
    ) -> None:
        self._app = app
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
        if _announced(scope) > cap:
            await answer(TooLarge(message))(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            part = await receive()
            received += len(part.get("body", b""))
            if received > cap:
                raise _TooLong(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
            return part

        try:
            await self._app(scope, counted, send)
        except _TooLong:
            # It was read before FastAPI had it, and so before anything was answered.
            await answer(TooLarge(message))(scope, receive, send)


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0
