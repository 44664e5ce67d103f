"""What others wait while somebody opens connections by the thousand and asks nothing.

``python -m benchmarks.half_open [--connections 20000] [--seconds 20] [--json OUT]`` starts ``gpucommons
up --demo`` in a folder of its own and opens connections on loopback to one endpoint after another: the
API, the pages, the hub's public port. Some say nothing, some send half a head, some half a body; what
the endpoint closes is opened again, so many a second at most. Meanwhile another user asks the API, with a
connection and a token of their own. One object per endpoint; loopback only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.results import append, percentile
from gpucommons.gpu.connections import open_file_limit

ATTACKERS = 4
#: Connections that were closed are opened again, this many a second by all together.
AGAIN_PER_S = 2000
_READY_S = 300
#: Between two calls of the honest user.
_PAUSE_S = 0.1
#: A call that took longer has failed, as in our own client.
_PATIENCE_S = 10.0
_BODY = b"Host: here\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n"
KINDS = (
    b"",
    b"GET /v1/jobs HTTP/1.1\r\nHost: here\r\n",
    b"POST /v1/jobs HTTP/1.1\r\n" + _BODY + b'\r\n{"name"',
    b"POST /services/gpucommons/ticket HTTP/1.1\r\n" + _BODY + b"\r\n{",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """A running ``gpucommons up``."""

    state: Path
    #: Address → port.
    endpoints: dict[str, int]
    token: str

    def log_bytes(self) -> int:
        """What all parts have logged."""
        return sum(path.stat().st_size for path in (self.state / "logs").iterdir())


@contextlib.contextmanager
def machine() -> Iterator[Machine]:
    """Start everything, stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="gc") as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
        probe.close()
        state = Path(folder) / "s"
        command = [
            sys.executable, "-m", "gpucommons.scheduler.up", "--demo", "--state", str(state),
            "--port", str(port),
        ]  # fmt: skip
        said = Path(folder) / "up.out"
        with said.open("wb") as output:
            up = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            _until_running(up, said)
            ports = json.loads((state / "ports.json").read_text())
            endpoints = {"api": ports["api"], "pages": ports["pages"], "public port": port}
            token = (state / "tokens" / "culler").read_text().strip()
            yield Machine(state=state, endpoints=endpoints, token=token)
        finally:
            up.send_signal(signal.SIGINT)
            up.wait()


def _until_running(up: subprocess.Popen[bytes], said: Path) -> None:
    deadline_s = time.monotonic() + _READY_S
    while "GPU Commons is running." not in said.read_text():
        if up.poll() is not None or time.monotonic() > deadline_s:
            raise RuntimeError(said.read_text())
        time.sleep(0.2)


def attack(port: int, connections: int, per_s: int) -> None:
    """Hold as many connections as asked for, until killed; all opened once, then again by rate."""
    open_file_limit.raise_limit()
    selector, opened, began_s = selectors.DefaultSelector(), 0, time.monotonic()
    while True:
        allowed = connections + int((time.monotonic() - began_s) * per_s)
        missing = min(connections - len(selector.get_map()), allowed - opened, 256)
        for _ in range(missing):
            opened += 1
            _open(selector, port, KINDS[opened % len(KINDS)])
        for key, _ in selector.select(0 if missing > 0 else 0.02):
            _look(selector, key.fileobj)  # type: ignore[arg-type] # only sockets are registered


def _open(selector: selectors.BaseSelector, port: int, sent: bytes) -> None:
    one = socket.socket()
    try:
        one.settimeout(5)
        one.connect(("127.0.0.1", port))
        one.send(sent)
        one.setblocking(False)
    except OSError:
        one.close()
    else:
        selector.register(one, selectors.EVENT_READ)


def _look(selector: selectors.BaseSelector, one: socket.socket) -> None:
    """Drop what was closed, read what was answered."""
    with contextlib.suppress(BlockingIOError):
        try:
            if one.recv(4096):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        selector.unregister(one)
        one.close()


def measure(target: Machine, endpoint: str, connections: int, seconds: float) -> dict[str, object]:
    """Calls of another user while an endpoint is held; one line of the result."""
    before_bytes = target.log_bytes()
    quiet = _ask(target, 3.0)
    argv = [
        sys.executable,
        "-m",
        "benchmarks.half_open",
        "--attack",
        str(target.endpoints[endpoint]),
    ]
    share = [str(connections // ATTACKERS), str(AGAIN_PER_S // ATTACKERS)]
    attackers = [subprocess.Popen([*argv, *share]) for _ in range(ATTACKERS)]
    try:
        loud = _ask(target, seconds)
    finally:
        for one in attackers:
            one.kill()
            one.wait()
    return {
        "endpoint": endpoint,
        "connections": connections,
        "calls": len(loud["api"]),
        "quiet_max_ms": max(quiet["api"]),
        "p50_ms": percentile(loud["api"], 50),
        "p95_ms": percentile(loud["api"], 95),
        "max_ms": max(loud["api"]),
        "failed": sum(ms >= _PATIENCE_S * 1000 for ms in loud["api"]),
        "through_hub_p95_ms": percentile(loud["hub"], 95),
        "through_hub_max_ms": max(loud["hub"]),
        "through_hub_failed": sum(ms >= _PATIENCE_S * 1000 for ms in loud["hub"]),
        "log_bytes": target.log_bytes() - before_bytes,
        "load_1_min": round(os.getloadavg()[0], 1),
    }


def _ask(target: Machine, seconds: float) -> dict[str, list[int]]:
    """Milliseconds of each call: to the API itself, and for a page through the hub."""
    took: dict[str, list[int]] = {"api": [], "hub": []}
    headers = {"Authorization": f"token {target.token}"}
    urls = {
        "api": f"http://127.0.0.1:{target.endpoints['api']}/v1/pools",
        "hub": f"http://127.0.0.1:{target.endpoints['public port']}/services/gpucommons/",
    }
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        for name, url in urls.items():
            took[name].append(_call(url, headers if name == "api" else {}))
        time.sleep(_PAUSE_S)
    return took


def _call(url: str, headers: dict[str, str]) -> int:
    """Milliseconds; as many as our patience has where there was no answer."""
    began_s = time.monotonic()
    try:
        with httpx.Client(trust_env=False, timeout=_PATIENCE_S) as client:
            status = client.get(url, headers=headers).status_code
    except httpx.HTTPError:
        return int(_PATIENCE_S * 1000)
    if status >= httpx.codes.BAD_REQUEST:
        return int(_PATIENCE_S * 1000)
    return int((time.monotonic() - began_s) * 1000)


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--endpoints", default="api,pages,public port")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--attack", nargs=3, type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.attack:
        attack(*arguments.attack)
    with machine() as target:
        for endpoint in arguments.endpoints.split(","):
            line = measure(target, endpoint, arguments.connections, arguments.seconds)
            print(json.dumps(line), flush=True)
            append(arguments.json, line)


if __name__ == "__main__":
    main()
