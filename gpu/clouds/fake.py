"""``python -m gpucommons.gpu.clouds.fake``: a metadata service that takes its machine back, for rehearsals.

It answers in the shapes of AWS, Google Cloud and Azure, and insists on what theirs insist on.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from datetime import UTC, datetime
from email.message import Message
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_Answer = tuple[int, str]
_NONE: _Answer = (404, "")


class FakeMetadata:
    """One machine's service on a port of the loopback address, for as long as the block lasts."""

    def __init__(self, port: int = 0) -> None:
        #: When the machine is taken back; None = no notice.
        self.leaves_ms: int | None = None
        #: AWS recommends to leave.
        self.at_risk = False
        #: As Azure names the machine, and for whom its event is.
        self.name, self.resources = "vm-1", ["vm-1"]
        #: AWS' token; another one makes earlier ones worthless.
        self.token = "token-1"  # noqa: S105 - it opens nothing
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> FakeMetadata:
        self._thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """What takes the place of the link-local address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def answer(self, method: str, path: str, headers: Message) -> _Answer:
        """What a machine hears that asks."""
        path = path.partition("?")[0]
        for start, cloud in (
            ("/latest/", self._aws),
            ("/computeMetadata/", self._google),
            ("/metadata/", self._azure),
        ):
            if path.startswith(start):
                return cloud(method, path, headers)
        return _NONE

    def _aws(self, method: str, path: str, headers: Message) -> _Answer:
        if path == "/latest/api/token":
            wanted = "X-aws-ec2-metadata-token-ttl-seconds"
            return (200, self.token) if method == "PUT" and wanted in headers else (400, "")
        if headers.get("X-aws-ec2-metadata-token") != self.token:
            return 401, ""
        if path == "/latest/meta-data/spot/instance-action" and self.leaves_ms is not None:
            time_of = _at(self.leaves_ms).strftime("%Y-%m-%dT%H:%M:%SZ")
            return 200, json.dumps({"action": "terminate", "time": time_of})
        if path == "/latest/meta-data/events/recommendations/rebalance" and self.at_risk:
            return 200, json.dumps({"noticeTime": "2026-11-28T02:00:00Z"})
        return _NONE

    def _google(self, _method: str, path: str, headers: Message) -> _Answer:
        if headers.get("Metadata-Flavor") != "Google":
            return 403, ""
        if path == "/computeMetadata/v1/instance/preempted":
            return 200, "FALSE" if self.leaves_ms is None else "TRUE"
        return _NONE

    def _azure(self, _method: str, path: str, headers: Message) -> _Answer:
        if headers.get("Metadata") != "true":
            return 400, ""
        if path == "/metadata/instance/compute/name":
            return 200, self.name
        if path == "/metadata/scheduledevents":
            events = [] if self.leaves_ms is None else [self._event(self.leaves_ms)]
            return 200, json.dumps({"DocumentIncarnation": 1, "Events": events})
        return _NONE

    def _event(self, leaves_ms: int) -> dict[str, object]:
        return {
            "EventId": "602d9444-d2cd-49c7-8624-8643e7171297",
            "EventType": "Preempt",
            "ResourceType": "VirtualMachine",
            "Resources": self.resources,
            "EventStatus": "Scheduled",
            "NotBefore": format_datetime(_at(leaves_ms), usegmt=True),
            "Description": "",
            "EventSource": "Platform",
            "DurationInSeconds": -1,
        }


def _at(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms // 1000, UTC)


def _handler(of: FakeMetadata) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            status, text = of.answer(self.command, self.path, self.headers)
            body = text.encode()
            self.send_response(status)
            self.send_header("Metadata-Flavor", "Google")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = _answer  # noqa: N815 - names of http.server

        def log_message(self, *_: object) -> None:
            """Nothing: it is asked every few seconds."""

    return Handler


def main(arguments: list[str] | None = None) -> int:
    """Serve until it is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8169)
    parser.add_argument("--after-s", type=int, default=0, help="from now to the notice")
    parser.add_argument("--in-s", type=int, default=120, help="from the notice to the end")
    options = parser.parse_args(arguments)
    with FakeMetadata(options.port) as fake:
        print(f"A metadata service answers at {fake.url}", flush=True)  # noqa: T201 - what it is for
        time.sleep(options.after_s)
        fake.leaves_ms = (int(time.time()) + options.in_s) * 1000
        print(f"It takes this machine back in {options.in_s} s.", flush=True)  # noqa: T201 - as above
        threading.Event().wait()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
