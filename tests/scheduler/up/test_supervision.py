"""Parts are kept alive, told apart from strangers, and never left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from gpucommons.scheduler.up.parts import Part
from gpucommons.scheduler.up.supervision import (
    BACK_OFF_S,
    Child,
    PartFailed,
    back_off_s,
    end_leftovers,
)

STAYS = "import time; time.sleep(600)"
#: Dies at its first start, stays at its second.
DIES_ONCE = """
import pathlib, sys, time
mark = pathlib.Path(sys.argv[1])
if not mark.exists():
    mark.touch()
    sys.exit(7)
time.sleep(600)
"""
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"


def part(tmp_path: Path, code: str, *arguments: str, **more: object) -> Part:
    return Part(
        name="thing",
        argv=(sys.executable, "-c", textwrap.dedent(code), *arguments),
        env=dict(os.environ),
        log=tmp_path / "thing.log",
        **more,
    )


async def until(look: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not look():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


@pytest.fixture
async def started() -> AsyncIterator[list[Child]]:
    children: list[Child] = []
    yield children
    for child in children:
        await child.stop()


async def begin(started: list[Child], one: Part) -> Child:
    child = Child(one, on_start=lambda _: None)
    started.append(child)
    await child.start()
    return child


async def test_a_killed_part_is_back_at_once(tmp_path: Path, started: list[Child]) -> None:
    child = await begin(started, part(tmp_path, STAYS))
    first = child.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    await until(lambda: child.pid not in (None, first))
    assert child.restarts == 1


def test_a_part_that_keeps_dying_is_restarted_later_and_later_but_always() -> None:
    waits = [back_off_s(n) for n in range(20)]
    assert waits[0] == 0
    assert waits == sorted(waits)
    assert waits[-1] == BACK_OFF_S[-1]


async def test_a_part_that_never_gets_ready_is_named_with_its_log(
    tmp_path: Path, started: list[Child]
) -> None:
    broken = part(
        tmp_path,
        "raise SystemExit('the reason why')",
        ready_socket=tmp_path / "never.sock",
    )
    with pytest.raises(PartFailed, match=r"(?s)thing does not start.*the reason why"):
        await begin(started, broken)


async def test_a_part_whose_program_cannot_be_run_is_named_at_once(
    tmp_path: Path, started: list[Child]
) -> None:
    lost = replace(part(tmp_path, STAYS), argv=(str(tmp_path / "python-of-another"),))
    with pytest.raises(PartFailed, match=r"thing cannot be started: .*python-of-another"):
        await begin(started, lost)


async def test_one_death_on_the_way_up_is_forgiven(tmp_path: Path, started: list[Child]) -> None:
    mark = tmp_path / "mark"
    child = await begin(started, part(tmp_path, DIES_ONCE, str(mark)))
    await until(lambda: mark.exists() and child.restarts == 1 and child.pid is not None)


async def test_a_part_that_does_not_listen_is_killed(tmp_path: Path, started: list[Child]) -> None:
    deaf = part(tmp_path, DEAF, stop_s=0.2)
    child = await begin(started, deaf)
    await until(lambda: "deaf" in deaf.log.read_text())
    pid = child.pid
    await child.stop()
    assert pid is not None
    assert not psutil.pid_exists(pid)


async def test_a_stopped_part_stays_stopped(tmp_path: Path, started: list[Child]) -> None:
    child = await begin(started, part(tmp_path, STAYS))
    await child.stop()
    await asyncio.sleep(0)
    assert child.pid is None
    assert child.restarts == 0


def test_a_killed_parent_leaves_no_part_behind(tmp_path: Path) -> None:
    code = f"""
        import asyncio, os, pathlib, sys
        from gpucommons.scheduler.up.supervision import Child
        from gpucommons.scheduler.up.parts import Part
        async def main():
            child = Child(Part(name="thing", argv=({sys.executable!r}, "-c", {STAYS!r}),
                               env=dict(os.environ), log=pathlib.Path("thing.log")),
                          on_start=lambda _: None)
            await child.start()
            print(child.pid, flush=True)
            await asyncio.sleep(600)
        asyncio.run(main())
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=tmp_path, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    with parent.stdout:
        pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    asyncio.run(until(lambda: not psutil.pid_exists(pid) or _is_zombie(pid)))


def _is_zombie(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_what_an_earlier_start_left_is_ended_and_strangers_are_not() -> None:
    left, stranger = (subprocess.Popen([sys.executable, "-c", STAYS]) for _ in range(2))
    try:
        created = psutil.Process(left.pid).create_time()
        # The stranger got the pid of a part that is long gone.
        ended = end_leftovers([("hub", left.pid, created), ("proxy", stranger.pid, 1.0)])
        assert ended == ["hub"]
        assert not psutil.pid_exists(left.pid)
        assert stranger.poll() is None
    finally:
        for process in (left, stranger):
            process.kill()
            process.wait()
