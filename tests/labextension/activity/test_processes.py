from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from gpucommons.gpu.linux.servers import editor_folders, is_editors_own, is_page_helper
from gpucommons.labextension.activity.process_load import Load, Meter
from gpucommons.labextension.activity.processes import (
    CLUSTER_HEADS,
    OwnProcesses,
    Process,
    input_at_ms,
    input_of_ms,
)
from gpucommons.scheduler.adapters.ray import cluster as ray_cluster


class World:
    """Processes that do what the test says, on its clock."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.processes: dict[int, Process] = {}
        self.meter = Meter(look=self.look, monotonic=lambda: self.now_s)

    def look(self) -> Mapping[int, Process]:
        return dict(self.processes)

    def put(self, pid: int, parent: int, cpu_s: float = 0, io: int = 0, **more: Any) -> None:
        self.processes[pid] = Process(
            pid=pid, parent=parent, created_s=more.pop("born", 1), cpu_s=cpu_s, io_bytes=io, **more
        )

    def after(self, seconds: float) -> None:
        self.now_s += seconds
        self.meter.refresh()


@pytest.fixture
def world() -> World:
    found = World()
    for pid, parent in ((1, 0), (2, 1), (3, 2), (4, 1), (9, 0)):
        found.put(pid, parent)
    found.meter.refresh()
    return found


def test_the_first_look_knows_nothing(world: World) -> None:
    assert not world.meter.tree(1).busy


def test_a_deep_child_makes_its_tree_busy_and_no_other(world: World) -> None:
    world.put(3, 2, cpu_s=1.5)
    world.after(15)
    assert world.meter.tree(2) == Load(cpu_percent=10.0, bytes_per_s=0.0)
    assert [world.meter.tree(pid).busy for pid in (1, 2, 4)] == [True, True, False]


def test_waiting_is_not_work(world: World) -> None:
    world.put(3, 2, cpu_s=0.5)
    world.after(15)
    assert not world.meter.tree(2).busy


def test_a_download_is_work(world: World) -> None:
    world.put(3, 2, io=30_000_000)
    world.after(15)
    assert world.meter.tree(2).busy


def test_a_new_process_counts_from_its_birth_and_a_reused_number_too(world: World) -> None:
    world.put(5, 4, cpu_s=3, born=101)
    world.put(3, 2, cpu_s=3, born=102)
    world.after(15)
    assert world.meter.tree(4).busy
    assert world.meter.tree(2).busy


def test_the_server_itself_and_known_trees_are_left_out(world: World) -> None:
    world.put(1, 0, cpu_s=15)
    world.put(3, 2, cpu_s=15)
    world.after(15)
    assert not world.meter.below(1, without=[2]).busy
    assert world.meter.below(1, without=[]).busy


def test_an_editor_is_no_work_and_what_runs_in_its_terminal_is(world: World) -> None:
    world.put(5, 1, is_helper=True)
    world.put(6, 5, is_editors=True)
    world.put(7, 6)  # the shell of its terminal
    world.after(10)
    world.put(6, 5, cpu_s=3, io=10**9, is_editors=True)
    world.after(10)
    assert not world.meter.below(1, without=[2]).busy
    # The same program, where somebody runs it by hand.
    world.put(8, 7, cpu_s=3, is_helper=True, is_editors=True)
    world.after(10)
    assert world.meter.below(1, without=[2]).busy


def test_a_server_in_javascript_that_no_editor_started_is_work(world: World) -> None:
    world.put(5, 1, is_editors=True)
    world.after(10)
    world.put(5, 1, cpu_s=3, is_editors=True)
    world.after(10)
    assert world.meter.below(1, without=[2]).busy


EDITORS = ("/usr/lib/code-server", "/opt/code-server")
IN_EDITOR = "/opt/code-server/lib/vscode"


@pytest.mark.parametrize(
    ("command", "helps", "editors"),
    [
        (["/usr/bin/node", f"{IN_EDITOR}/out/bootstrap-fork", "--type=fileWatcher"], True, True),
        ([f"{IN_EDITOR}/node_modules/sdk/copilot-runtime", "--headless"], True, True),
        (["/usr/lib/code-server/lib/node", "/usr/lib/code-server", "--auth", "none"], True, True),
        (["node", "/usr/local/bin/code-server", "--auth", "none"], True, True),
        (["/v/bin/python", "/v/bin/node", "/v/bin/code-server", "--auth"], True, True),
        (["node", "/v/lib/node_modules/pyright/langserver.index.js", "--stdio"], True, True),
        (["node", "/v/node_modules/bash-language-server/out/cli.js", "start"], True, True),
        (["node", "/usr/bin/npm", "prefix", "-g"], True, True),
        # Anybody's, where an editor did not start it.
        (["node", "/home/ann/app/server.js"], False, True),
        (["npm", "run", "serve"], False, True),
        (["/home/ann/lib/vscode/python", "train.py"], False, False),
        (["/opt/code-server-of-ann/python", "train.py"], False, False),
        (["python", "/home/ann/lib/vscode/train.py"], False, False),
        (["python", "langserver.py"], False, False),
        ([], False, False),
    ],
)
def test_parts_of_an_editor_are_known_by_their_commands(
    command: list[str], helps: bool, editors: bool
) -> None:
    assert is_page_helper(command, EDITORS) is helps
    assert is_editors_own(command, EDITORS) is editors


def test_the_editor_is_the_one_that_the_tile_starts(tmp_path: Path) -> None:
    installed = tmp_path / "modules/code-server"
    entry = installed / "out/node/entry.js"
    product = installed / "lib/vscode/product.json"
    for file in (entry, product):
        file.parent.mkdir(parents=True)
        file.touch()
    entry.chmod(0o755)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "code-server").symlink_to(entry)
    packaged = "/usr/lib/code-server"
    assert editor_folders({"PATH": str(programs)}) == (packaged, str(installed))
    asked = {"PATH": str(programs), "CODE_EXECUTABLE": "openvscode-server"}
    assert editor_folders(asked) == (packaged,)


def test_a_command_line_is_read_once_and_one_that_may_not_be_read_hides_no_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []

    def refused(process: psutil.Process) -> list[str]:
        read.append(process.pid)
        raise psutil.AccessDenied(process.pid)

    monkeypatch.setattr(psutil.Process, "cmdline", refused)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in OwnProcesses(os.getpid())()
        assert read.count(child.pid) == 1
    finally:
        child.communicate(b"\n")


def test_what_lives_outside_the_tree_is_told_apart(world: World) -> None:
    world.put(3, 2, cpu_s=15)
    world.after(15)
    assert not world.meter.outside(1).busy
    world.put(9, 0, cpu_s=15)
    world.after(15)
    assert world.meter.outside(1).busy


def test_a_second_look_at_once_changes_nothing(world: World) -> None:
    world.put(3, 2, cpu_s=1.5)
    world.after(15)
    world.put(3, 2, cpu_s=1.9)
    world.after(0.1)
    assert world.meter.tree(2).cpu_percent == 10.0


def test_real_processes_are_found_with_those_left_behind(tmp_path: Path) -> None:
    # A child that starts a grandchild of its own session and leaves it behind.
    pid_file = tmp_path / "pid"
    code = (
        "import subprocess, sys;"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],"
        " start_new_session=True);"
        f"open({str(pid_file)!r}, 'w').write(str(p.pid))"
    )
    environ = {**os.environ, "GPUCOMMONS_LEASE_ID": "lease-1"}
    subprocess.run([sys.executable, "-c", code], env=environ, check=True)
    left = int(pid_file.read_text())
    try:
        assert left not in OwnProcesses(os.getpid())()
        assert left not in OwnProcesses(os.getpid(), marker=("GPUCOMMONS_LEASE_ID", "another"))()
        found = OwnProcesses(os.getpid(), marker=("GPUCOMMONS_LEASE_ID", "lease-1"))()
        assert left in found
        assert os.getpid() in found
    finally:
        os.kill(left, 9)


def test_what_somebody_else_started_for_the_server_counts_as_its_own(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = (
        "import subprocess, sys;"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],"
        " start_new_session=True);"
        f"open({str(pid_file)!r}, 'w').write(str(p.pid))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    beside = int(pid_file.read_text())
    gone = subprocess.Popen(["true"])
    gone.wait()
    try:
        found = OwnProcesses(os.getpid(), beside=lambda: (beside, gone.pid))()
        assert found[beside].parent == os.getpid()
        assert gone.pid not in found
    finally:
        os.kill(beside, 9)


def test_typing_is_input_and_output_is_not() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp("cat", ["cat"])  # noqa: S606 - a terminal's child
    try:
        before = time.time() * 1000 - 20_000
        os.write(terminal, b"hello\n")
        # Once from the terminal itself, once from the program that has read it.
        shown = b""
        while shown.count(b"hello") < 2:
            shown += os.read(terminal, 100)
        typed = input_at_ms(pid)
        assert typed is not None
        assert typed > before
        # Also where an editor opened it; the terminal that the server itself was started in says nothing.
        assert input_of_ms([os.getpid(), pid], beside=os.getpid()) == typed
        assert input_of_ms([pid], beside=pid) is None
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)


def test_a_process_without_terminal_has_no_input() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        assert input_at_ms(child.pid) is None
    finally:
        child.kill()
        child.communicate()
    assert input_at_ms(child.pid) is None


def test_a_clusters_head_and_all_below_it_is_no_work_of_the_kernels() -> None:
    assert ray_cluster.HEAD in CLUSTER_HEADS
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[3]])"
    said = "print('ready', flush=True); input()"
    aside, counted = (
        subprocess.Popen(
            [sys.executable, "-c", child, "-m", module, said],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for module in (ray_cluster.HEAD, "http.server")
    )
    below = []
    for one in (aside, counted):
        assert one.stdout is not None
        assert one.stdout.readline() == b"ready\n"
        below.append(psutil.Process(one.pid).children()[0].pid)
    found = OwnProcesses(os.getpid())()
    for one in (aside, counted):
        one.communicate(b"\n")
    assert {counted.pid, below[1]} <= found.keys()
    assert not {aside.pid, below[0]} & found.keys()
