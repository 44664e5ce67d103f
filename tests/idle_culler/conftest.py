from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from serving import Served, serving

from gpucommons.idle_culler.idle_limits import Rules
from gpucommons.idle_culler.leases import Leases
from gpucommons.idle_culler.loop import Loop, Pace
from gpucommons.idle_culler.metrics import Metrics
from gpucommons.scheduler.client.calls import Call
from gpucommons.scheduler.errors import Unavailable, UnknownWorkload
from gpucommons.scheduler.models import (
    ActivityList,
    ActivityView,
    IdleView,
    KernelActivity,
    LeaseView,
)

MINUTE = 60_000
START = 1_800_000_000_000


class Clock:
    """Time that moves when told to."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.ends_s = float("inf")

    def monotonic(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        if self.now_s > self.ends_s:
            raise asyncio.CancelledError

    @property
    def now_ms(self) -> int:
        return START + int(self.now_s * 1000)


@dataclass
class Notebook:
    """What the scheduler knows of one lease."""

    user: str
    last_active_ms: int = START
    busy: bool = False
    reporting: bool = True
    metered: bool = True
    gpu_active_ms: int | None = START
    idle: IdleView = field(default_factory=IdleView)
    state: str = "active"
    ended: tuple[str, str] | None = None
    dropped: bool = False
    hibernated: str | None = None
    parked: str | None = None


class FakeScheduler:
    """Answers the culler's calls as the scheduler does, on the test's clock."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.notebooks: dict[str, Notebook] = {}
        self.down = False
        self.asked: list[str] = []
        self.before_recheck: Any = lambda lease_id: None

    def add(self, user: str, **fields: Any) -> Notebook:
        self.notebooks[f"lease-{user}"] = Notebook(user=user, **fields)
        return self.notebooks[f"lease-{user}"]

    async def send(self, call: Call[Any]) -> Any:
        self.asked.append(f"{call.method} {call.path}")
        if self.down:
            raise Unavailable
        if call.path == "/v1/activities":
            views = [self._view(key) for key, n in self.notebooks.items() if n.ended is None]
            return ActivityList(now_ms=self.clock.now_ms, activities=views)
        match = re.fullmatch(r"/v1/leases/([\w-]+)/(\w+)", call.path)
        assert match is not None, call.path
        lease_id, verb = match.groups()
        if lease_id not in self.notebooks:
            raise UnknownWorkload
        return getattr(self, f"_{verb}")(lease_id, call.body)

    def _activity(self, lease_id: str, _body: Any) -> ActivityView:
        self.before_recheck(lease_id)
        return self._view(lease_id)

    def _idle(self, lease_id: str, body: Any) -> LeaseView:
        notebook = self.notebooks[lease_id]
        returns_ms = body.returns_ms
        warned_ms = notebook.idle.warned_ms if returns_ms == notebook.idle.returns_ms else None
        notebook.idle = IdleView(
            idle_since_ms=body.idle_since_ms,
            returns_ms=returns_ms,
            warned_ms=(warned_ms or self.clock.now_ms) if returns_ms is not None else None,
            kept_until_ms=notebook.idle.kept_until_ms,
            on_idle=notebook.idle.on_idle,
            on_idle_allowed=notebook.idle.on_idle_allowed,
            keeps=notebook.idle.keeps,
            parks=notebook.idle.parks,
            not_parked=notebook.idle.not_parked,
        )
        notebook.state = "warned" if returns_ms is not None else "active"
        return self._view(lease_id).lease

    def _end(self, lease_id: str, body: Any) -> LeaseView:
        self.notebooks[lease_id].ended = (body.why, body.text)
        return self._view(lease_id).lease

    def _drop(self, lease_id: str, _body: Any) -> LeaseView:
        self.notebooks[lease_id].dropped = True
        return self._view(lease_id).lease

    def _hibernate(self, lease_id: str, body: Any) -> LeaseView:
        self.notebooks[lease_id].hibernated = body.text
        self.notebooks[lease_id].state = "hibernating"
        return self._view(lease_id).lease

    def _park(self, lease_id: str, body: Any) -> LeaseView:
        self.notebooks[lease_id].parked = body.text
        self.notebooks[lease_id].state = "parking"
        return self._view(lease_id).lease

    def _view(self, lease_id: str) -> ActivityView:
        notebook = self.notebooks[lease_id]
        kernel = KernelActivity(
            kind="kernel", busy=notebook.busy, last_active_ms=notebook.last_active_ms
        )
        now_ms = self.clock.now_ms
        return ActivityView(
            lease=LeaseView(
                id=lease_id,
                user=notebook.user,
                server_name="",
                team="vision",
                pool="build",
                state=notebook.state,
                milli_gpu=500,
                requested_ms=START,
                since_ms=START,
                idle=notebook.idle,
            ),
            reported_ms=now_ms if notebook.reporting else None,
            kernels=[kernel] if notebook.reporting else [],
            gpu_active_ms=notebook.gpu_active_ms,
            usage_ms=now_ms if notebook.metered else None,
        )


class FakeHub:
    """Stops servers, and remembers how many at the same time."""

    def __init__(self) -> None:
        self.stopped: list[str] = []
        self.now = self.most = 0
        self.fails: Exception | None = None
        self.wait: Any = None

    async def stop(self, user: str, server_name: str, *, remove: bool = False) -> bool:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            if self.wait is not None:
                await self.wait()
            if self.fails is not None:
                raise self.fails
            self.stopped.append(user)
        finally:
            self.now -= 1
        return True


@dataclass
class Bench:
    """A culler with everything around it faked."""

    clock: Clock
    scheduler: FakeScheduler
    hub: FakeHub
    metrics: Metrics
    leases: Leases
    loop: Loop

    async def at_minute(self, minute: float) -> None:
        """One cycle at that minute."""
        self.clock.now_s = minute * 60
        await self.loop.cycle()


@pytest.fixture
def make_bench() -> Any:
    def make(rules: Rules | None = None, *, dry_run: bool = False) -> Bench:
        clock, hub, metrics = Clock(), FakeHub(), Metrics()
        scheduler = FakeScheduler(clock)
        leases = Leases(
            scheduler=scheduler,
            hub=hub,
            rules=rules or Rules(),
            metrics=metrics,
            clock=clock,
            dry_run=dry_run,
        )
        loop = Loop([leases], pace=Pace(), metrics=metrics, clock=clock)
        return Bench(clock, scheduler, hub, metrics, leases, loop)

    return make


@pytest.fixture
def bench(make_bench: Any) -> Bench:
    bench: Bench = make_bench()
    return bench


@pytest.fixture
async def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    terminals = {"jpserver_extensions": {"jupyter_server_terminals": True}}
    async with serving(tmp_path, monkeypatch, terminals) as found:
        yield found
