"""The idle culler under load, side by side with jupyterhub-idle-culler where that is installed.

``python -m benchmarks.culler --json OUT``. Hub and scheduler are fakes in processes of their own,
which answer prepared models and count their CPU; every measurement is a fresh process. Two loads:
200 idle servers whose stop takes a second, and one cycle over 10,000 users of whom nobody is idle.
The CPU of a *real* hub per listed user is higher than the fake's; what carries over are the number
of requests and the ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import multiprocessing
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx
import tornado.web

IDLE_S = 7200
#: Who holds a GPU among 10,000 users.
HOLDERS = 200
IMPLEMENTATIONS = ("ours-leases", "ours-plain", "jupyterhub-idle-culler")


# --- the fakes -------------------------------------------------------------------------------


class Load:
    """What the fakes pretend."""

    def __init__(self, users: int, idle_s: int, stop_s: float) -> None:
        moment = (datetime.now(UTC) - timedelta(seconds=idle_s)).isoformat()
        self.stop_s = stop_s
        self.idle_s = idle_s
        self.names = [f"user-{number}" for number in range(users)]
        self.server = {
            "name": "",
            "ready": True,
            "pending": None,
            "url": "/",
            "started": moment,
            "last_activity": moment,
        }
        self.stopped: set[str] = set()
        self.requests = self.stopping = self.most = 0

    def user(self, name: str) -> dict[str, Any]:
        """As the hub describes a user."""
        servers = {} if name in self.stopped else {"": self.server}
        return {"name": name, "admin": False, "created": self.server["started"], "servers": servers}


class Handler(tornado.web.RequestHandler):
    """Counts requests."""

    load: Load

    def initialize(self, load: Load) -> None:
        """One load per process."""
        self.load = load
        load.requests += 1


class Version(Handler):
    """``GET /hub/api/``."""

    def get(self) -> None:
        """What the peer asks first."""
        self.write({"version": "6.1.1"})


class Users(Handler):
    """``GET /hub/api/users``."""

    def get(self) -> None:
        """One page."""
        offset = int(self.get_argument("offset", "0"))
        limit = int(self.get_argument("limit", "50"))
        items = [self.load.user(name) for name in self.load.names[offset : offset + limit]]
        following = None
        if offset + limit < len(self.load.names):
            url = f"{self.request.protocol}://{self.request.host}/hub/api/users"
            query = f"?offset={offset + limit}&limit={limit}"
            following = {"offset": offset + limit, "limit": limit, "url": url + query}
        self.write({"items": items, "_pagination": {"next": following}})


class User(Handler):
    """``GET /hub/api/users/NAME``."""

    def get(self, name: str) -> None:
        """One user."""
        self.write(self.load.user(name))


class Server(Handler):
    """``DELETE /hub/api/users/NAME/server``."""

    async def delete(self, name: str) -> None:
        """Take as long as a real stop."""
        load = self.load
        load.stopping += 1
        load.most = max(load.most, load.stopping)
        await asyncio.sleep(load.stop_s)
        load.stopping -= 1
        load.stopped.add(name)
        self.set_status(204)


class Stats(Handler):
    """``GET /stats``: what this process did."""

    def get(self) -> None:
        """Not counted."""
        self.load.requests -= 1
        self.write(
            {
                "requests": self.load.requests,
                "cpu_s": time.process_time(),
                "most_stops_at_once": self.load.most,
                "stopped": len(self.load.stopped),
            }
        )


class Activities(Handler):
    """The scheduler's side: every holder's activity, or one's; reports and ends are accepted."""

    def view(self, name: str) -> dict[str, Any]:
        """Warned long ago, where idle."""
        now_ms = time.time_ns() // 1_000_000
        since_ms = now_ms - self.load.idle_s * 1000
        idle = {
            "idle_since_ms": since_ms,
            "warned_ms": now_ms - 700_000,
            "returns_ms": now_ms - 100_000,
        }
        lease = {
            "id": name,
            "user": name,
            "server_name": "",
            "team": "vision",
            "pool": "build",
            "state": "warned" if self.load.idle_s >= IDLE_S else "active",
            "milli_gpu": 500,
            "requested_ms": since_ms,
            "since_ms": since_ms,
            "idle": idle if self.load.idle_s >= IDLE_S else None,
        }
        kernel = {"kind": "kernel", "busy": False, "last_active_ms": since_ms}
        return {
            "lease": lease,
            "reported_ms": now_ms,
            "kernels": [kernel],
            "gpu_active_ms": since_ms,
            "usage_ms": now_ms,
        }

    def get(self, name: str | None = None) -> None:
        """All, or one."""
        if name is not None:
            self.write(self.view(name))
            return
        holders = [self.view(each) for each in self.load.names[:HOLDERS]]
        self.write({"now_ms": time.time_ns() // 1_000_000, "activities": holders})

    def post(self, name: str) -> None:
        """An end."""
        self.write(self.view(name)["lease"])

    def put(self, name: str) -> None:
        """A report."""
        self.write(self.view(name)["lease"])


def serve(load: Load, report: Connection) -> None:
    """Answer on a free port until killed."""

    async def run() -> None:
        rows = [
            (r"/hub/api/", Version),
            (r"/hub/api/users", Users),
            (r"/hub/api/users/([^/]+)", User),
            (r"/hub/api/users/([^/]+)/server", Server),
            (r"/v1/activities", Activities),
            (r"/v1/leases/([^/]+)/(?:activity|end|idle)", Activities),
            (r"/stats", Stats),
        ]
        application = tornado.web.Application(
            [(path, handler, {"load": load}) for path, handler in rows],
            log_function=lambda _handler: None,
        )
        server = application.listen(0, "127.0.0.1")
        (listener,) = server._sockets.values()
        report.send(listener.getsockname()[1])
        await asyncio.Event().wait()

    asyncio.run(run())


@contextmanager
def served(load: Load) -> Iterator[str]:
    """A fake in its own process; gives its address."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.Process(target=serve, args=(load, there), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{here.recv()}"
    finally:
        process.kill()
        process.join()


# --- one measurement, in a process of its own ------------------------------------------------


async def cycle_of(implementation: str, hub: str, scheduler: str) -> None:
    """One cycle."""
    logger = logging.getLogger("benchmark")
    if implementation == "jupyterhub-idle-culler":
        import jupyterhub_idle_culler as peer  # noqa: PLC0415 - only where it is installed

        await peer.cull_idle(f"{hub}/hub/api", "token", 3600, logger, concurrency=10)
        return
    from gpucommons.idle_culler import hub as hubs  # noqa: PLC0415 - the peer's run needs none
    from gpucommons.idle_culler.idle_limits import Rules  # noqa: PLC0415 - as above
    from gpucommons.idle_culler.leases import Leases  # noqa: PLC0415 - as above
    from gpucommons.idle_culler.loop import Loop, Pace, WallTime  # noqa: PLC0415 - as above
    from gpucommons.idle_culler.metrics import Metrics  # noqa: PLC0415 - as above
    from gpucommons.idle_culler.servers_without_lease import cull_idle  # noqa: PLC0415 - as above
    from gpucommons.scheduler.client import AsyncSchedulerClient  # noqa: PLC0415 - as above

    if implementation == "ours-plain":
        await cull_idle(f"{hub}/hub/api", "token", 3600, logger)
        return
    metrics, clock = Metrics(), WallTime()
    async with (
        hubs.Hub(f"{hub}/hub/api", token="token") as api,  # noqa: S106 - a fake's
        AsyncSchedulerClient(scheduler) as client,
    ):
        leases = Leases(scheduler=client, hub=api, rules=Rules(), metrics=metrics, clock=clock)
        await Loop([leases], pace=Pace(), metrics=metrics, clock=clock).cycle()


def measure(implementation: str, hub: str, scheduler: str) -> dict[str, Any]:
    """Time, CPU and memory of one cycle, after everything is imported and connected once."""
    with served(Load(1, 0, 0)) as empty:
        asyncio.run(cycle_of(implementation, empty, empty))
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cpu_s, begun = time.process_time(), time.monotonic()
    asyncio.run(cycle_of(implementation, hub, scheduler))
    return {
        "wall_s": round(time.monotonic() - begun, 2),
        "cpu_s": round(time.process_time() - cpu_s, 2),
        "rss_growth_mib": round(
            (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib) / 1024, 1
        ),
    }


# --- all of them -----------------------------------------------------------------------------


def compare(load: tuple[int, int, float], peer_python: str | None) -> dict[str, Any]:
    """Every implementation under one load."""
    results: dict[str, Any] = {}
    for implementation in IMPLEMENTATIONS:
        python = sys.executable
        if implementation == "jupyterhub-idle-culler":
            if peer_python is None:
                continue
            python = peer_python
        with served(Load(*load)) as hub, served(Load(*load)) as scheduler:
            idle = httpx.get(f"{hub}/stats", trust_env=False).json()
            command = [python, "-m", "benchmarks.culler", "--one", implementation]
            output = subprocess.run(
                [*command, "--hub", hub, "--scheduler", scheduler],
                check=True,
                capture_output=True,
                text=True,
                cwd=Path(__file__).parents[1],
            ).stdout
            stats = httpx.get(f"{hub}/stats", trust_env=False).json()
        stats["cpu_s"] = round(stats["cpu_s"] - idle["cpu_s"], 2)
        results[implementation] = {**json.loads(output), "hub": stats}
    return results


def find_peer(python: str | None) -> str | None:
    """An interpreter that has the peer; None where there is none."""
    if python is not None:
        return python
    return sys.executable if find_spec("jupyterhub_idle_culler") else None


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr] # it has one
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    parser.add_argument("--peer-python", help="an interpreter that has jupyterhub-idle-culler")
    parser.add_argument("--one", choices=IMPLEMENTATIONS, help=argparse.SUPPRESS)
    parser.add_argument("--hub", help=argparse.SUPPRESS)
    parser.add_argument("--scheduler", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.hub, arguments.scheduler)))
        return
    peer = find_peer(arguments.peer_python)
    figures = {
        "idle_200_stop_1_s": compare((200, IDLE_S, 1.0), peer),
        "cycle_10000_users": compare((10_000, 60, 0.0), peer),
        "cpus": os.cpu_count(),
        "peer": "jupyterhub-idle-culler" if peer else None,
    }
    text = json.dumps(figures, indent=2)
    if arguments.json:
        arguments.json.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
