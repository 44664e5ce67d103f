"""Five notebooks as people leave them: real kernels, a real terminal, a real Jupyter Server.

What the server does is real; only the clock of collector and culler jumps ahead, so that hours pass
in seconds. The GPU says nothing in all of them: its silence alone must never end a notebook.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psutil
import pytest
from jupyter_client.asynchronous.client import AsyncKernelClient
from serving import Served, hang_up

from gpucommons.idle_culler.idle_limits import MINUTE_MS, Limits
from gpucommons.idle_culler.policy import (
    Activity,
    Cull,
    Decision,
    Keep,
    Occupant,
    Warn,
    decide,
)
from gpucommons.labextension.activity.collector import Collector, collector_for, wall_clock_ms
from gpucommons.labextension.activity.process_load import Meter
from gpucommons.labextension.activity.processes import OwnProcesses, Process

Look = Callable[[], Mapping[int, Process]]
LIMITS = Limits()


@dataclass
class Watched:
    """One notebook server, its collector, and the culler's view of it."""

    server: Any
    collector: Collector
    ahead_ms: int = 0
    started_ms: int = field(default_factory=wall_clock_ms)
    warned: Warn | None = None
    warned_ms: int | None = None

    def now_ms(self) -> int:
        return wall_clock_ms() + self.ahead_ms

    async def at_minute(self, minute: float) -> Decision:
        """Report and decide as if so many minutes had passed since the start."""
        self.ahead_ms = self.started_ms + int(minute * MINUTE_MS) - wall_clock_ms()
        report = await self.collector.collect()
        now_ms = self.now_ms()
        activity = Activity(
            state="warned" if self.warned else "active",
            since_ms=self.started_ms,
            reported_ms=now_ms,
            occupants=tuple(
                Occupant(kind=e.kind, busy=e.busy, last_active_ms=e.last_active_ms)
                for e in report.kernels
            ),
            gpu_active_ms=self.started_ms,
            usage_ms=now_ms,
            warned_ms=self.warned_ms,
            returns_ms=self.warned.returns_ms if self.warned else None,
        )
        decision = decide(activity, LIMITS, now_ms)
        if isinstance(decision, Warn):
            self.warned, self.warned_ms = decision, now_ms
        elif isinstance(decision, Keep) and decision.returns_ms is None:
            self.warned = self.warned_ms = None
        return decision

    async def through(self, first: int, last: int, step: int = 5) -> list[Decision]:
        return [await self.at_minute(minute) for minute in range(first, last + 1, step)]


@pytest.fixture
def started_here() -> Iterator[Look]:
    """Looks at what this test starts alone, and leaves none of it behind, however the test ends."""
    of_others = {child.pid for child in psutil.Process().children(recursive=True)}
    everything, started = OwnProcesses(os.getpid()), dict[int, psutil.Process]()

    def look() -> Mapping[int, Process]:
        found = {pid: one for pid, one in everything().items() if pid not in of_others}
        for pid in found.keys() - started.keys() - {os.getpid()}:
            with suppress(psutil.NoSuchProcess):
                started[pid] = psutil.Process(pid)
        return found

    yield look
    for process in started.values():
        with suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.fixture
def watched(started_here: Look, served: Served) -> Watched:
    collector = collector_for(served.app, {}, lambda: 0)
    collector.meter = Meter(look=started_here)
    found = Watched(server=served.app, collector=collector)
    collector.now_ms = found.now_ms
    return found


@dataclass
class Notebook:
    """A started kernel, as a notebook uses it."""

    kernel_id: str
    client: AsyncKernelClient
    manager: Any

    async def run(self, code: str) -> None:
        await self.client.execute_interactive(code, timeout=60, output_hook=lambda _m: None)
        await self.settle("idle")

    async def begin(self, code: str) -> None:
        self.client.execute(code)
        await self.settle("busy")

    async def settle(self, state: str) -> None:
        async with asyncio.timeout(60):
            while self.manager.get_kernel(self.kernel_id).execution_state != state:  # noqa: ASYNC110 - the server offers no event
                await asyncio.sleep(0.02)


@pytest.fixture
async def notebook(served: Served) -> AsyncIterator[Notebook]:
    manager = served.app.kernel_manager
    kernel_id = await manager.start_kernel(kernel_name="python3")
    client = manager.get_kernel(kernel_id).client()
    client.start_channels()
    await client.wait_for_ready(timeout=60)
    yield Notebook(kernel_id=kernel_id, client=client, manager=manager)
    client.stop_channels()
    await manager.shutdown_kernel(kernel_id, now=True)


async def test_idle_is_warned_at_50_and_culled_at_60(watched: Watched, notebook: Notebook) -> None:
    await notebook.run("x = 1")
    assert isinstance(await watched.at_minute(45), Keep)
    assert isinstance(await watched.at_minute(51), Warn)
    assert isinstance(await watched.at_minute(59), Keep)
    assert isinstance(await watched.at_minute(62), Cull)


async def test_a_burst_after_the_warning_starts_the_hour_anew(
    watched: Watched, notebook: Notebook, started_here: Look
) -> None:
    await notebook.run("x = 1")
    assert isinstance(await watched.at_minute(51), Warn)
    # The kernel's own clock cannot jump: what it does now is done at minute 55.
    await notebook.begin("import time; time.sleep(600)")
    assert await watched.at_minute(55) == Keep(reason="kernel-busy", text="kernel busy")
    await notebook.manager.interrupt_kernel(notebook.kernel_id)
    await notebook.settle("idle")
    # What the kernel computed to show the interrupt would fill the short span since the last look.
    watched.collector.meter = Meter(look=started_here)
    decisions = await watched.through(60, 100)
    assert {type(decision) for decision in decisions} == {Keep}
    assert isinstance(await watched.at_minute(106), Warn)


async def test_a_silent_cell_of_three_hours_is_kept(watched: Watched, notebook: Notebook) -> None:
    await notebook.begin("import threading; threading.Event().wait(600)")
    decisions = await watched.through(0, 180, step=10)
    assert set(decisions) == {Keep(reason="kernel-busy", text="kernel busy")}


async def test_a_job_in_a_terminal_is_kept_until_it_ends(watched: Watched, served: Served) -> None:
    answer = await served.http.post("api/terminals")
    name = answer.json()["name"]
    terminal = watched.server.web_app.settings["terminal_manager"].terminals[name]
    terminal.ptyproc.write("python3 -c 'while True: pass' > /dev/null\n")
    await _until_busy(watched)
    decisions = await watched.through(1, 180, step=20)
    assert {decision.reason for decision in decisions} == {"terminal-busy"}
    terminal.ptyproc.write("\x03")
    await _until_quiet(watched, 200)
    assert isinstance(await watched.at_minute(245), Keep)
    assert isinstance(await watched.at_minute(255), Warn)
    assert isinstance(await watched.at_minute(266), Cull)
    await watched.server.web_app.settings["terminal_manager"].terminate(name, force=True)


async def test_an_open_tab_is_not_activity(
    watched: Watched,
    notebook: Notebook,
    served: Served,
) -> None:
    await notebook.run("x = 1")
    socket = await served.websocket(f"api/kernels/{notebook.kernel_id}/channels")
    found: list[type[Decision]] = []
    for minute in (20, 45, 51, 58, 62):
        # What a tab does for as long as it is open.
        for path in ("api/status", "api/kernels", "api/contents", "api/sessions"):
            (await served.http.get(path)).raise_for_status()
        found.append(type(await watched.at_minute(minute)))
    await hang_up(socket)
    assert found == [Keep, Keep, Warn, Keep, Cull]


async def test_a_training_process_that_outlives_its_cell_is_kept(
    watched: Watched, notebook: Notebook
) -> None:
    await notebook.run(
        "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', 'while 1: pass'])"
    )
    await _until_busy(watched)
    decisions = await watched.through(1, 180, step=20)
    assert {decision.reason for decision in decisions} == {"process-busy"}
    await notebook.run("child.kill(); _ = child.wait()")
    await _until_quiet(watched, 200)
    assert isinstance(await watched.at_minute(266), Warn)


async def _until_busy(watched: Watched) -> None:
    """Processes need real time to be seen at work."""
    await _until(watched, 0, lambda decision: decision.reason.endswith("-busy"))


async def _until_quiet(watched: Watched, minute: float) -> None:
    await _until(watched, minute, lambda decision: not decision.reason.endswith("-busy"))


async def _until(watched: Watched, minute: float, wanted: Callable[[Decision], bool]) -> None:
    async with asyncio.timeout(60):
        while not wanted(await watched.at_minute(minute)):  # noqa: ASYNC110 - processes offer no event
            await asyncio.sleep(0.3)
