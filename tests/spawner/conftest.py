"""A spawner without a hub, and a scheduler that answers from a table."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from jupyterhub.spawner import Spawner

from gpucommons.scheduler.client import AsyncSchedulerClient
from gpucommons.spawner.lease import LeaseMixin

LEASE_ID = "0190aaaa-0000-7000-8000-000000000001"
SLICE = {
    "slice_id": "0190aaaa-0000-7000-8000-0000000000aa",
    "node": "gpu-03",
    "device_ids": ["sim-1"],
    "device_indices": [1],
    "gpu_kind": "A100-40",
    "milli_gpu": 500,
    "memory_mib": 19866,
    "isolation": "none",
    "simulated": True,
}
LEASE = {
    "id": LEASE_ID,
    "user": "alice",
    "server_name": "",
    "team": "vision",
    "pool": "gpu",
    "state": "granted",
    "milli_gpu": 500,
    "gpu_kind": "A100-40",
    "requested_ms": 1,
    "since_ms": 1,
    "slice": SLICE,
}


class ScriptedScheduler:
    """Answers as told and remembers what it was asked."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Any]] = []
        #: Answers by "METHOD path"; a list is used up one by one.
        self.answers: dict[str, Any] = {}
        self.answer("POST /v1/leases/acquire", 200, LEASE)
        self.answer(f"POST /v1/leases/{LEASE_ID}/started", 200, LEASE | {"state": "active"})
        self.answer(f"POST /v1/leases/{LEASE_ID}/end", 200, LEASE | {"state": "ended"})

    def answer(self, route: str, status: int, body: Any) -> None:
        self.answers[route] = (status, body)

    def refuse(self, route: str, status: int, error: str, message: str) -> None:
        self.answer(route, status, {"error": error, "message": message})

    def paths(self) -> list[str]:
        return [f"{method} {path}" for method, path, _ in self.requests]

    def bodies(self, path: str) -> list[Any]:
        return [body for _, asked, body in self.requests if asked == path]

    def handle(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else None
        self.requests.append((request.method, request.url.path, body))
        found = self.answers.get(f"{request.method} {request.url.path}")
        if found is None:
            raise httpx.ConnectError("nobody listens")
        status, content = found
        return httpx.Response(status, json=content)


class PretendServer(Spawner):
    """What a spawner is without its lease: here, nothing but a flag."""

    running = False
    fails_with: BaseException | None = None

    async def start(self) -> tuple[str, int]:
        if self.fails_with is not None:
            raise self.fails_with
        self.running = True
        return ("127.0.0.1", 8888)

    async def stop(self, now: bool = False) -> None:
        self.running = False

    async def poll(self) -> int | None:
        return None if self.running else 0

    def get_state(self) -> dict[str, Any]:
        state: dict[str, Any] = super().get_state()
        return {**state, "pid": 4242} if self.running else state


class PretendSpawner(LeaseMixin, PretendServer):
    """The mixin on a server that is not there."""

    transport: httpx.AsyncBaseTransport | None = None

    def root_pid(self) -> int | None:
        return 4242 if self.running else None

    def _scheduler(self) -> AsyncSchedulerClient:
        return AsyncSchedulerClient("http://scheduler", token="t", transport=self.transport)


@pytest.fixture
def scheduler() -> ScriptedScheduler:
    return ScriptedScheduler()


@pytest.fixture
def make_spawner(
    scheduler: ScriptedScheduler, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., PretendSpawner]:
    monkeypatch.setattr("gpucommons.spawner.lease.RETRY_DELAYS_S", (0.0, 0.0))
    monkeypatch.setattr("gpucommons.spawner.server_gone.RETRY_DELAYS_S", (0.0, 0.0, 0.0))

    def make(options: dict[str, object] | None = None) -> PretendSpawner:
        spawner = PretendSpawner(
            user=SimpleNamespace(name="alice"),
            scheduler_url="http://scheduler",
            environments={"Python 3.12": "/usr/bin/python3"},
        )
        spawner.transport = httpx.MockTransport(scheduler.handle)
        spawner.user_options = options or {}
        return spawner

    return make
