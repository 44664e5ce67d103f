"""The agent's HTTP API: the control socket's requests for other machines, for who has the token.

In threads of its own, so that a slow or hostile caller never keeps the agent from looking; what it
lets in goes through the control socket like any other request. It lets in what
``requests.REMOTE_REQUESTS`` names and nothing that speaks of this machine's processes.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http.server import ThreadingHTTPServer

from gpucommons.gpu.agent.http_api.bad_tokens import BadTokens
from gpucommons.gpu.agent.http_api.callers import Caller
from gpucommons.gpu.agent.http_api.settings import HttpApiSettings, Inside
from gpucommons.gpu.agent.http_api.tls import Certificate
from gpucommons.gpu.agent.http_api.tokens import read_token
from gpucommons.gpu.client import wire

logger = logging.getLogger(__name__)

#: For the first byte and every next one, the handshake included.
_TIMEOUT_S = 5.0
#: For all of a request and its answer: longer than the agent is given to answer.
MAX_CONNECTION_S = 30.0
#: Whether the agent is well, which anybody may ask, is asked of it so often.
_HEALTH_S = 1.0
#: How soon it notices that it should close.
_NOTICE_END_S = 0.25
#: When one more comes, one without a token goes.
_MAX_CONNECTIONS = 64


class HttpApi:
    """An HTTP server in threads."""

    def __init__(
        self, settings: HttpApiSettings, inside: Inside, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        for path in (settings.token_file, settings.metrics_token_file):
            if path is not None:
                read_token(path)
        self._server = _Server(settings, inside, now_s)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_NOTICE_END_S,), name="http-api", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Let nobody in any more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@dataclass(kw_only=True, slots=True)
class _Open:
    """One connection."""

    socket: socket.socket
    since_s: float
    address: str
    has_token: bool = False


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = _MAX_CONNECTIONS
    allow_reuse_address = True

    def __init__(
        self, settings: HttpApiSettings, inside: Inside, now_s: Callable[[], float]
    ) -> None:
        self.settings = settings
        self.inside = inside
        self.bad_tokens = BadTokens(now_s)
        self._now_s = now_s
        self._health: tuple[float, bool] | None = None
        self._certificate = (
            None
            if settings.cert_file is None
            else Certificate(settings.cert_file, settings.key_file)
        )
        #: Oldest first.
        self._open: dict[int, _Open] = {}
        self._lock = threading.Lock()
        if ":" in settings.host:
            self.address_family = socket.AF_INET6
        super().__init__((settings.host, settings.port), Caller)

    def process_request(self, request: object, client_address: object) -> None:
        """Make room, then serve in a thread."""
        assert isinstance(request, socket.socket)  # noqa: S101 - what a TCP server accepts
        request.settimeout(_TIMEOUT_S)
        address = str(client_address[0]) if isinstance(client_address, tuple) else ""
        with self._lock:
            if len(self._open) >= _MAX_CONNECTIONS:
                # Its own thread closes it.
                _shut(self._open.pop(self._least_missed()).socket)
            self._open[id(request)] = _Open(socket=request, since_s=self._now_s(), address=address)
        super().process_request(request, client_address)

    def _least_missed(self) -> int:
        """The oldest without a token, of the address that has most of them."""
        crowds = Counter(one.address for one in self._open.values() if not one.has_token)
        if not crowds:
            return next(iter(self._open))
        ((address, _),) = crowds.most_common(1)
        return next(
            key for key, one in self._open.items() if one.address == address and not one.has_token
        )

    def keep(self, request: socket.socket) -> None:
        """Who showed the token does not make room for who has not."""
        with self._lock:
            for one in self._open.values():
                if one.socket is request:
                    one.has_token = True

    def service_actions(self) -> None:
        """End connections of those who take too long, byte by byte."""
        latest_s = self._now_s() - MAX_CONNECTION_S
        with self._lock:
            for key in [key for key, one in self._open.items() if one.since_s < latest_s]:
                _shut(self._open.pop(key).socket)

    def is_well(self) -> bool:
        """Whether the agent answers; it is not asked again at once.

        Raises
        ------
        AgentUnavailable
            When it does not.
        """
        known, now_s = self._health, self._now_s()
        if known is None or not 0 <= now_s - known[0] < _HEALTH_S:
            answer = json.loads(self.inside.ask(wire.encode({"request": "slices"})))
            known = self._health = (now_s, bool(answer.get("ok")))
        return known[1]

    def shutdown_request(self, request: object) -> None:
        """End one connection."""
        with self._lock:
            self._open.pop(id(request), None)
        super().shutdown_request(request)  # type: ignore[arg-type]  # its own type is a union

    def wrap(self, request: socket.socket) -> socket.socket:
        """Speak TLS on a connection, where there is a certificate.

        Raises
        ------
        OSError
            When the caller speaks something else, or too slowly.
        """
        if self._certificate is None:
            return request
        key = id(request)
        # The connection moves into the new socket at once, whatever comes of the handshake.
        wrapped = self._certificate.context().wrap_socket(
            request, server_side=True, do_handshake_on_connect=False
        )
        with self._lock:
            if key in self._open:
                self._open[key].socket = wrapped
        try:
            wrapped.do_handshake()
        except BaseException:
            wrapped.close()
            raise
        return wrapped

    def handle_error(self, request: object, client_address: object) -> None:
        """A caller who went away, or spoke no TLS, is not worth a traceback."""
        logger.debug("HTTP API: connection from %s ended early", client_address)


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
