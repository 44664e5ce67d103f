"""Control groups of servers below root's program: what drops its signals is ended all the same."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from below_root.asking_server import USER, server

from gpucommons.gpu.hibernation.above_server import groups, standing
from gpucommons.gpu.hibernation.inside.tree_settings import Account
from gpucommons.gpu.linux.control_groups import enter

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or groups.hindrance() is not None,
    reason="only root makes control groups, and only where cgroup v2 can be written",
)
#: Longer than trees may save.
_LATER_S = 1000
_IGNORES = """
import ctypes, signal
for number in range(1, 32):
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_IGN)
def drops():
    assert ctypes.CDLL(None).prctl(1, 0, 0, 0, 0) == 0
drops()
"""
_FORKS = """
import os, sys, time
print("up", flush=True)
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep(0.01)
"""


@pytest.fixture
def made() -> Iterator[groups.Groups]:
    found = groups.make(f"gpucommons-test-{os.getpid()}")
    yield found
    groups.end(found.server)
    assert found.remove()


def _ends(descriptor: int, within_s: float = 20) -> bool:
    return bool(select.select([descriptor], [], [], within_s)[0])


def _is_gone(path: Path) -> bool:
    end_s = time.monotonic() + 20
    while path.exists() and time.monotonic() < end_s:
        time.sleep(0.02)
    return not path.exists()


@pytest.mark.parametrize("by", ["cgroup.kill", "no.such.file"])
def test_what_forks_without_end_is_ended_with_its_group(
    made: groups.Groups, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "_KILL", by)
    with subprocess.Popen(
        [sys.executable, "-c", _FORKS],
        stdout=subprocess.PIPE,
        preexec_fn=lambda: enter(str(made.server)),  # noqa: PLW1509 - one thread
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert groups.end(made.server)
    assert (made.server / "cgroup.procs").read_text() == ""


def test_a_server_that_drops_its_signals_ends_once_its_killed_program_is_found(home: Path) -> None:
    code = _IGNORES + (
        "if not os.fork(): time.sleep(600)\n"
        "print(os.getppid(), os.getpid(), place, flush=True)\ntime.sleep(600)"
    )
    with server(home, code) as line:
        program, number, place = line.split()
        descriptor = os.pidfd_open(int(number))
        os.kill(int(program), signal.SIGKILL)
        assert not _ends(descriptor, 0.5)
        found = standing.groups_of(Path(place).parent)
        assert found is not None

        standing.end_left(Path(place).parents[1])

        assert _ends(descriptor)
        os.close(descriptor)
    assert not found.server.exists()
    assert not Path(place).parent.exists()


def test_a_halted_tree_of_a_killed_program_ends_when_it_may_have_saved_itself(home: Path) -> None:
    code = _IGNORES + (
        "one = tree(orphaned='save')\n"
        "started(one, SLEEPS)\nprinted()\n"
        "outer = one.pid()\n"
        "inner = int(Path(f'/proc/{outer}/task/{outer}/children').read_text())\n"
        "os.kill(inner, signal.SIGSTOP)\n"
        "print(os.getppid(), inner, place, flush=True)\ntime.sleep(600)"
    )
    with server(home, code) as line:
        program, inner, place = line.split()
        base = Path(place).parents[1]
        descriptor = os.pidfd_open(int(inner))
        os.kill(int(program), signal.SIGKILL)
        standing.end_left(base)
        assert not _ends(descriptor, 0.5)

        standing.end_left(base, now_s=time.time() + _LATER_S)

        assert _ends(descriptor)
        os.close(descriptor)
    standing.end_left(base)
    assert not Path(place).parent.exists()


def test_what_a_server_left_to_run_on_goes_on_when_it_ended_by_itself(home: Path) -> None:
    code = """
left = subprocess.Popen(["sleep", "600"], start_new_session=True)
print(left.pid, place, flush=True)
"""
    with server(home, code) as line:
        number, place = line.split()
        assert _is_gone(Path(place))
    base, descriptor = Path(place).parents[1], os.pidfd_open(int(number))
    standing.end_left(base, now_s=time.time() + _LATER_S)
    assert not _ends(descriptor, 0.2)
    os.kill(int(number), signal.SIGKILL)
    assert _ends(descriptor)
    standing.end_left(base)
    assert not Path(place).parent.exists()


def test_where_no_group_can_be_made_the_program_stands_without(tmp_path: Path) -> None:
    above = standing.prepare(
        Account(uid=USER, gid=USER), Path("/home/ada"), (), tmp_path, str(tmp_path / "nothing")
    )
    assert above.groups is None
    assert above.place.exists()
    above.discard()
    assert list(tmp_path.iterdir()) == []
