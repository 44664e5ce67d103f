"""The two ways to a node agent: its socket on this machine, its HTTP API from another."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from gpucommons.gpu.connections.addresses import is_loopback
from gpucommons.gpu.connections.unix_sockets import connect

_RECEIVE_BYTES = 1 << 18
#: No answer of an honest agent is longer.
_MAX_ANSWER_BYTES = 32 << 20
_ASK_PATH = "/v1/ask"
_TOLD_CHARACTERS = 200


class Transport(Protocol):
    """Carries one request line to the agent and its answer back. Safe from any thread."""

    @property
    def place(self) -> str:
        """Where the agent is, for messages."""
        ...

    @property
    def advice(self) -> str:
        """What to do when nobody answers."""
        ...

    def ask(self, line: bytes, timeout_s: float) -> bytes:
        """The answer.

        Raises
        ------
        OSError
            When there is none in time.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class SocketTransport:
    """The control socket."""

    path: Path

    @property
    def place(self) -> str:
        """See the protocol."""
        return str(self.path)

    @property
    def advice(self) -> str:
        """See the protocol."""
        return "start it with `gpucommons up`"

    def ask(self, line: bytes, timeout_s: float) -> bytes:
        """See the protocol."""
        deadline_s = time.monotonic() + timeout_s
        with connect(self.path, timeout_s=timeout_s) as connection:
            connection.sendall(line)
            return _line(connection, deadline_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpTransport:
    """The HTTP API: ``https://host:port``; ``http://`` on this machine, and elsewhere on request."""

    url: str
    token: str = field(repr=False)
    #: Who signed the agents' certificates; None = whom this machine trusts.
    ca_file: Path | None = None
    #: The name in the agents' certificates, which are reached by address.
    server_name: str | None = None
    #: The token may cross a network in clear.
    in_clear: bool = False

    @property
    def place(self) -> str:
        """See the protocol."""
        return self.url

    @property
    def advice(self) -> str:
        """See the protocol."""
        return "look at the agent's pod on that node"

    def ask(self, line: bytes, timeout_s: float) -> bytes:
        """See the protocol."""
        connection = self._connection(timeout_s)
        try:
            headers = {"Authorization": f"Bearer {self.token}"}
            connection.request("POST", _ASK_PATH, body=line, headers=headers)
            answer = connection.getresponse()
            body = answer.read(_MAX_ANSWER_BYTES + 1)
        except http.client.HTTPException as error:
            message = f"{type(error).__name__}: {error}"
            raise ConnectionError(message) from error
        finally:
            connection.close()
        if answer.status != HTTPStatus.OK:
            told = body[:_TOLD_CHARACTERS].decode(errors="replace").strip()
            message = f"it answers {answer.status}: {told}"
            raise ConnectionError(message)
        if len(body) > _MAX_ANSWER_BYTES:
            raise ConnectionError("its answer has no end")
        return body

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            message = f"{self.url} is no address of an agent: write http://host:port"
            raise ConnectionError(message)
        host, port = parts.hostname, parts.port
        if parts.scheme == "http" and not (self.in_clear or is_loopback(host)):
            message = f"{self.url} would send the token in clear: agents are asked over https"
            raise ConnectionError(message)
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=timeout_s)
        context = ssl.create_default_context(cafile=self.ca_file)
        return _NamedConnection(
            host, port, timeout=timeout_s, context=context, name=self.server_name or host
        )


class _NamedConnection(http.client.HTTPSConnection):
    """TLS with a server that is reached by another name than it has."""

    def __init__(
        self, host: str, port: int | None, *, timeout: float, context: ssl.SSLContext, name: str
    ) -> None:
        super().__init__(host, port, timeout=timeout, context=context)
        self._tls = context
        self._name = name

    def connect(self) -> None:
        """Connect, and ask for a certificate of that name."""
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)


def _line(connection: socket.socket, deadline_s: float) -> bytes:
    received = bytearray()
    while not received.endswith(b"\n"):
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        connection.settimeout(left_s)
        chunk = connection.recv(_RECEIVE_BYTES)
        if not chunk or len(received) > _MAX_ANSWER_BYTES:
            raise ConnectionError("the connection ended within an answer")
        received += chunk
    return bytes(received)
