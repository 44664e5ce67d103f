"""The tests' PostgreSQL, which has a unix socket alone, at an address that pods reach."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer

from psycopg.conninfo import conninfo_to_dict


@contextmanager
def reachable(database: str, address: str) -> Iterator[str]:
    """The URL of a database for whoever sees this address of ours."""
    known = {name: str(value) for name, value in conninfo_to_dict(database).items()}
    place = Path(known["host"]) / f".s.PGSQL.{known.get('port', '5432')}"

    class Relay(BaseRequestHandler):
        def handle(self) -> None:
            with socket.socket(socket.AF_UNIX) as server:
                server.connect(str(place))
                back = threading.Thread(target=_pass_on, args=(server, self.request))
                back.start()
                _pass_on(self.request, server)
                back.join()

    class Listening(ThreadingTCPServer):
        daemon_threads = True

    with Listening((address, 0), Relay) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            port = listening.server_address[1]
            yield f"postgresql+psycopg://{known['user']}@{address}:{port}/{known['dbname']}"
        finally:
            listening.shutdown()
            thread.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    """Until the source has no more; the target is told so."""
    with suppress(OSError):
        while read := source.recv(1 << 16):
            target.sendall(read)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
