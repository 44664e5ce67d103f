from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpucommons.gpu.agent.control.node import cpu_milli, memory_mib
from gpucommons.gpu.linux.processes import LinuxProcesses, Processes, ProcessStat, PsutilProcesses

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads Linux' /proc")


@pytest.fixture(params=[LinuxProcesses, PsutilProcesses], ids=["proc", "psutil"])
def processes(request: pytest.FixtureRequest) -> Processes:
    found: Processes = request.param()
    return found


def write(folder: Path, pid: int, **files: str) -> None:
    (folder / str(pid)).mkdir()
    for name, content in files.items():
        (folder / str(pid) / name).write_text(content)


def stat_line(name: str, *, state: str = "S", parent: int = 1, start: int = 77) -> str:
    between = " ".join(["0"] * 9)
    return f"5 ({name}) {state} {parent} {between} 30 12 0 0 20 0 1 0 {start} 0 0\n"


def test_this_process_knows_itself_and_its_child(processes: Processes) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "input()"],
        stdin=subprocess.PIPE,
        env=os.environ | {"GPUCOMMONS_SLICE_ID": "slice-é"},
    ) as child:
        try:
            assert {os.getpid(), child.pid} <= set(processes.pids())
            found = processes.stat(child.pid)
            assert found is not None
            assert (found.pid, found.parent) == (child.pid, os.getpid())
            assert processes.uid(child.pid) == os.getuid()
            load = processes.load(found)
            assert load is not None
            assert load.demand_ms >= 0
        finally:
            child.kill()
        assert os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT) is not None
        assert processes.stat(child.pid) is None, "a zombie is no live process"
    assert processes.stat(child.pid) is None


def test_nothing_is_kept_of_a_process_that_is_gone() -> None:
    processes = LinuxProcesses()
    with subprocess.Popen(["sleep", "60"]) as child:
        assert processes.stat(child.pid) is not None
        assert kept_of(child.pid)
        child.kill()
    # Asked for between two lists, as those of slices are.
    assert processes.stat(child.pid) is None
    assert not kept_of(child.pid)


def kept_of(pid: int) -> bool:
    return any(isinstance(one, ProcessStat) and one.pid == pid for one in gc.get_objects())


def test_an_environment_names_the_slice(processes: Processes) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"GPUCOMMONS_SLICE_ID": "slice-7", "X_GPUCOMMONS_SLICE_ID": "no"},
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert processes.slice_id(child.pid) == "slice-7"
        assert "input()" in processes.command(child.pid)[-1]
        child.kill()


def test_what_is_gone_is_none(processes: Processes) -> None:
    gone = 2**22 + 1
    assert processes.stat(gone) is None
    assert processes.uid(gone) is None
    assert processes.slice_id(gone) is None
    assert processes.command(gone) == ()


@pytest.mark.parametrize("name", ["python", "a b", "(sd-pam)", ") R 9 9 (", "x) S 2"])
def test_a_hostile_process_name_changes_nothing(tmp_path: Path, name: str) -> None:
    write(tmp_path, 5, stat=stat_line(name, parent=42))
    found = LinuxProcesses(str(tmp_path)).stat(5)
    assert found is not None
    assert (found.parent, found.start) == (42, 77)
    assert found.cpu_ms == 42 * (1000 // os.sysconf("SC_CLK_TCK"))


@pytest.mark.parametrize("content", ["", "5", "5 (x", "5 (x) S 1 0 0", stat_line("x", state="Z")])
def test_a_stat_that_makes_no_sense_is_no_process(tmp_path: Path, content: str) -> None:
    write(tmp_path, 5, stat=content)
    assert LinuxProcesses(str(tmp_path)).stat(5) is None


def test_demand_is_time_had_and_time_waited_for(tmp_path: Path) -> None:
    write(tmp_path, 5, stat=stat_line("x"), statm="9 4 1 0 0 0 0\n", schedstat="1 3000000000 9\n")
    reader = LinuxProcesses(str(tmp_path))
    found = reader.stat(5)
    assert found is not None
    load = reader.load(found)
    assert load is not None
    assert load.demand_ms == found.cpu_ms + 3000


def test_a_kernel_without_schedstat_counts_time_had(tmp_path: Path) -> None:
    write(tmp_path, 5, stat=stat_line("x"), statm="3000 3000 440 0 0 0 0\n")
    reader = LinuxProcesses(str(tmp_path))
    found = reader.stat(5)
    assert found is not None
    load = reader.load(found)
    assert load is not None
    assert load.demand_ms == found.cpu_ms
    assert load.private_mib == 2560 * os.sysconf("SC_PAGE_SIZE") // 2**20


def test_a_containers_limits_are_the_nodes(tmp_path: Path) -> None:
    cpu, memory, meminfo = (tmp_path / name for name in ("cpu.max", "memory.max", "meminfo"))
    meminfo.write_text("MemFree: 1 kB\nMemTotal:    8388608 kB\n")
    cpu.write_text("50000 100000\n")
    memory.write_text(f"{1 << 30}\n")
    assert cpu_milli(cpu) == 500
    assert memory_mib(meminfo, memory) == 1024
    cpu.write_text("max 100000\n")
    memory.write_text("max\n")
    assert cpu_milli(cpu) >= 1000
    assert memory_mib(meminfo, memory) == 8192
    assert memory_mib(tmp_path / "none", memory) > 0
