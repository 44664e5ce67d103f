"""Tornado's HTTP server behind the bounds of all endpoints.

Whoever comes through the hub's proxy needs no login to cost a connection here. Each carries one
request, which has its time from the first byte to the last; the oldest makes room for a new one.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Hashable, Iterable

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream
from tornado.web import Application

from gpucommons.gpu.connections import open_file_limit
from gpucommons.gpu.connections.peer_limits import Crowds
from gpucommons.gpu.connections.request_heads import HalfOpen, HeadsFirst

MAX_BODY_BYTES = 256 << 10
MAX_HEAD_BYTES = 32 << 10
BODY_S = 10.0
#: Of one request, until its answer has been read: longer than the scheduler is given to answer.
REQUEST_S = 90.0
_SWEEP_S = 1.0
_MOST_HALF_OPEN = 1024


class BoundedServer(HTTPServer):
    """Listens inside a running loop until :meth:`end`."""

    def initialize(  # type: ignore[override] # tornado's own way to be made; nothing else is chosen
        self, request_callback: Application
    ) -> None:
        """Take what tornado bounds by itself."""
        super().initialize(
            request_callback,
            no_keep_alive=True,
            idle_connection_timeout=BODY_S,
            body_timeout=BODY_S,
            max_body_size=MAX_BODY_BYTES,
            max_header_size=MAX_HEAD_BYTES,
            max_buffer_size=MAX_BODY_BYTES + MAX_HEAD_BYTES,
        )
        self._loop = asyncio.get_running_loop()
        self._served: Crowds[IOStream] = Crowds(open_file_limit.limit() // 8)
        self._listening: list[HeadsFirst] = []
        self._sweeping = self._loop.call_later(_SWEEP_S, self._sweep)

    def listen_on(self, sockets: Iterable[socket.socket]) -> None:
        """Serve who comes; the sockets stay their opener's."""
        bounds = HalfOpen(most=min(_MOST_HALF_OPEN, open_file_limit.limit() // 16))
        self._listening += [HeadsFirst(one, self._begin, bounds=bounds) for one in sockets]

    def _begin(self, connection: socket.socket, peer: Hashable) -> None:
        stream = IOStream(connection, max_buffer_size=MAX_BODY_BYTES + MAX_HEAD_BYTES)
        goes = self._served.add(stream, peer, now_s=self._loop.time())
        if goes is not None:
            goes.close()
        self.handle_stream(stream, (peer, 0))

    def on_close(self, server_conn: object) -> None:
        """Tornado's word that a connection is over."""
        super().on_close(server_conn)
        self._served.remove(server_conn.stream)  # type: ignore[attr-defined] # tornado has no name for it

    def _sweep(self) -> None:
        for stream in self._served.since(self._loop.time() - REQUEST_S):
            stream.close()
        self._sweeping = self._loop.call_later(_SWEEP_S, self._sweep)

    async def end(self) -> None:
        """Take no more, finish what is under way."""
        self._sweeping.cancel()
        for one in self._listening:
            one.close()
        await self.close_all_connections()
