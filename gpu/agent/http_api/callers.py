"""One caller of the agent's HTTP API: what it may ask, once it has shown its token."""

from __future__ import annotations

import hmac
import logging
import socket
import ssl
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BufferedIOBase
from pathlib import Path
from typing import Protocol, cast

from gpucommons.gpu.agent.control.requests import REMOTE_REQUESTS, refusal
from gpucommons.gpu.agent.http_api.bad_tokens import BadTokens
from gpucommons.gpu.agent.http_api.settings import HttpApiSettings, Inside
from gpucommons.gpu.agent.http_api.tokens import read_token
from gpucommons.gpu.client import wire
from gpucommons.gpu.errors import AgentUnavailable, BadAgentRequest, GpuError

logger = logging.getLogger(__name__)

#: Where requests are posted, one line each.
ASK_PATH = "/v1/ask"
#: As on the control socket.
_MAX_REQUEST_BYTES = 65_536
#: Of a request's head: whoever has no token could fill the memory with more.
_MAX_HEAD_BYTES = 16_384


class Behind(Protocol):
    """What a caller may ask."""

    settings: HttpApiSettings
    inside: Inside
    bad_tokens: BadTokens

    def wrap(self, request: socket.socket) -> socket.socket:
        """Speak TLS, where there is a certificate."""
        ...

    def keep(self, request: socket.socket) -> None:
        """Who showed the token does not make room for who has not."""
        ...

    def is_well(self) -> bool:
        """Whether the agent answers."""
        ...


class _Head:
    """What a caller sends: its head in lines, of bounded size together, then a body."""

    def __init__(self, file: BufferedIOBase) -> None:
        self._file = file
        self._left = _MAX_HEAD_BYTES

    def readline(self, size: int = -1) -> bytes:
        """One line of the head.

        Raises
        ------
        ConnectionError
            When the head is too long.
        """
        line = self._file.readline(self._left + 1 if size < 0 else min(size, self._left + 1))
        self._left -= len(line)
        if self._left < 0:
            raise ConnectionError("the head of a request has at most 16 KiB")
        return line

    def read(self, size: int) -> bytes:
        """So much of the body."""
        return self._file.read(size)

    def close(self) -> None:
        """Let go."""
        self._file.close()


class Caller(BaseHTTPRequestHandler):
    """Serves one connection, in a thread of its own."""

    server: Behind  # type: ignore[assignment] # a TCP server that is all of this
    server_version = "gpucommons-agent"
    sys_version = ""

    def setup(self) -> None:
        """Speak TLS in this caller's own thread: a handshake may take its time."""
        self.request = self.server.wrap(self.request)
        super().setup()
        self.rfile = cast("BufferedIOBase", _Head(self.rfile))

    def finish(self) -> None:
        """Let go of the TLS side too."""
        super().finish()
        if isinstance(self.request, ssl.SSLSocket):
            self.request.close()

    def do_GET(self) -> None:
        """Health for everybody, metrics for who has the token."""
        if self.path == "/healthz":
            self._answer(self._health)
        elif self.path != "/metrics":
            self._send(HTTPStatus.NOT_FOUND, b"Ask for /metrics or /healthz.\n")
        elif self._may_pass(self.server.settings.metrics_token_file):
            self._answer(self.server.inside.metrics)

    def do_POST(self) -> None:
        """One request of the agent."""
        if not self._may_pass():
            return
        if self.path != ASK_PATH:
            self._send(HTTPStatus.NOT_FOUND, f"Post to {ASK_PATH}.\n".encode())
            return
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and int(length) <= _MAX_REQUEST_BYTES):
            self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b"A request has at most 64 KiB.\n")
            return
        body = self.rfile.read(int(length))
        self._answer(lambda: self._asked(body))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing: callers choose what would be written."""

    def _asked(self, body: bytes) -> bytes:
        try:
            message = wire.decode(body)
            name = message.get("request")
            name = name if isinstance(name, str) else ""
            other = self.server.inside.others.get(name)
            if other is not None:
                return wire.encode({"ok": True} | other())
            if name not in REMOTE_REQUESTS:
                known = ", ".join(sorted(REMOTE_REQUESTS | self.server.inside.others.keys()))
                raise BadAgentRequest(f'"request" must be one of: {known}.')
        except AgentUnavailable:
            raise
        except GpuError as error:
            return refusal(error)
        # Written anew, so that both sides read the same.
        return self.server.inside.ask(wire.encode(message))

    def _health(self) -> bytes:
        return b"ok\n" if self.server.is_well() else b"not well\n"

    def _may_pass(self, also: Path | None = None) -> bool:
        """Whether the caller has the token, or the one in the other file."""
        files = (self.server.settings.token_file, also)
        try:
            tokens = [read_token(path) for path in files if path is not None]
        except ValueError as error:
            logger.warning("%s", error)
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, b"The HTTP API has no token.\n")
            return False
        given = self.headers.get("Authorization", "").encode(errors="replace")
        if any(hmac.compare_digest(given, f"Bearer {token}".encode()) for token in tokens):
            self.server.keep(self.request)
            return True
        # Only now: behind one address there may be many callers, the scheduler among them.
        address = str(self.client_address[0])
        if self.server.bad_tokens.is_blocked(address):
            self._send(HTTPStatus.TOO_MANY_REQUESTS, b"Too many wrong tokens: wait a minute.\n")
            return False
        if self.server.bad_tokens.note(address):
            logger.warning(
                "HTTP API: %s sends wrong tokens and is turned away for a while", address
            )
        self._send(HTTPStatus.UNAUTHORIZED, b"Send Authorization: Bearer TOKEN.\n")
        return False

    def _answer(self, page: Callable[[], bytes]) -> None:
        try:
            body = page()
        except AgentUnavailable as error:
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, f"{error}\n".encode())
        else:
            self._send(HTTPStatus.OK, body)

    def _send(self, status: HTTPStatus, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
