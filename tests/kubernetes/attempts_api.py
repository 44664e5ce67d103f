"""What pods of a test ask of the scheduler, answered at an address that they reach.

For tests that drive an executor by hand: its pods are those of an installation without a storage, so
they ask for nothing but their orders.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from kubernetes import client

from gpucommons.scheduler.core.model.types import Stop
from gpucommons.scheduler.models import AttemptInputs, AttemptOrders, SavingView, TreeReport
from gpucommons.scheduler.service.views.jobs import stop_view


class AttemptsApi:
    """What each attempt is told, by its token."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._stops: dict[str, Stop] = {}
        self._over = False
        self.url = ""
        #: What attempts told of their processes, by their tokens.
        self.trees: dict[str, TreeReport] = {}

    def say(self, token: str, stop: Stop | None) -> None:
        """Announce a stop to an attempt, or take it back."""
        with self._changed:
            if stop is None:
                self._stops.pop(token, None)
            else:
                self._stops[token] = stop
            self._changed.notify_all()

    def orders(self, token: str, *, announced: bool, wait_s: float) -> AttemptOrders:
        """What it is told, once that is another thing than it knows."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._over or (token in self._stops) != announced, timeout=wait_s
            )
            return AttemptOrders(stop=stop_view(self._stops.get(token)))

    def forget(self) -> None:
        """Take back all that was announced: the next test's attempts have the same tokens."""
        with self._changed:
            self._stops.clear()
            self._changed.notify_all()

    def close(self) -> None:
        """Let nobody wait any longer."""
        with self._changed:
            self._over = True
            self._changed.notify_all()


def gateway(api: client.ApiClient, node: str) -> str:
    """This machine, as the nodes see it."""
    addresses = client.CoreV1Api(api).read_node(node).status.addresses
    inside = next(one.address for one in addresses if one.type == "InternalIP")
    return f"{inside.rpartition('.')[0]}.1"


@contextmanager
def serving_attempts(address: str) -> Iterator[AttemptsApi]:
    """An API at a free port of the address."""
    served = AttemptsApi()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            if asked.path == "/v1/attempt/inputs":
                self._answer(AttemptInputs())
                return
            if asked.path == "/v1/attempt/saving":
                self._answer(SavingView(saves=True, max_bytes=1 << 30))
                return
            query = parse_qs(asked.query)
            self._answer(
                served.orders(
                    self._token(),
                    announced=query["announced"] == ["true"],
                    wait_s=float(query["wait_s"][0]),
                )
            )

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/v1/attempt/tree":
                served.trees[self._token()] = TreeReport.model_validate_json(body)
            self._answer(AttemptOrders())

        def _token(self) -> str:
            return self.headers["Authorization"].removeprefix("token ")

        def _answer(self, found: AttemptInputs | AttemptOrders | SavingView) -> None:
            content = found.model_dump_json().encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            # Whoever waited may be gone.
            try:
                self.wfile.write(content)
            except OSError:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer((address, 0), Handler)
    server.daemon_threads = True
    served.url = f"http://{address}:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield served
    finally:
        served.close()
        server.shutdown()
        thread.join()
        server.server_close()
