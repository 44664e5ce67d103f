"""How much memory a job has is seen on this machine as CRIU would write it, and reaches the core."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpucommons.gpu.hibernation.inside import processes
from gpucommons.scheduler.core.model.types import AttemptId
from gpucommons.scheduler.executors.local.attempt.attempt_folder import AttemptFolder, write_json
from gpucommons.scheduler.executors.local.attempt.descendants import memory_bytes
from gpucommons.scheduler.executors.local.watch import Watch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux saves processes")
MIB = 1 << 20
#: A child of the child has 64 MiB of its own, and reads as much through a mapped file.
HOLDS = """
import mmap, subprocess, sys
if len(sys.argv) > 2:
    held = bytearray(b"x" * (64 << 20))
    with open(sys.argv[1], "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    sum(mapped[at] for at in range(0, len(mapped), 4096))
    print("ready", flush=True)
    sys.stdin.read()
else:
    subprocess.run([sys.executable, __file__, sys.argv[1], "child"])
"""


def test_memory_of_all_below_counts_and_pages_of_files_do_not(tmp_path: Path) -> None:
    script, file = tmp_path / "holds.py", tmp_path / "mapped"
    script.write_text(HOLDS)
    file.write_bytes(b"\0" * (64 * MIB))
    command = [sys.executable, str(script), str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"ready\n"
        seen = memory_bytes(process.pid)
        listed = processes.memory_bytes(processes.below(process.pid))
        process.stdin.close()
    assert 64 * MIB <= seen < 100 * MIB
    assert listed in (0, seen), "where the kernel lists no children, nothing is told"


def test_a_change_of_its_memory_wakes_whoever_watches(tmp_path: Path) -> None:
    changes = []
    folder = AttemptFolder(tmp_path)
    watch = Watch(lambda _attempt_id: folder, lambda: changes.append(1))
    before = {AttemptId("a"): watch._trace(AttemptId("a"))}
    watch._look(before)
    assert changes == []
    write_json(folder.memory, {"memory_mib": 5})
    watch._look(before)
    assert changes == [1]
