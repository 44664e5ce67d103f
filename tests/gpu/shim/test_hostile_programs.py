"""Programs in a slice that try to be missed, misread or fatal to whoever looks at them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpucommons.gpu import shim
from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.gpu.linux.pidfd import signal_process
from gpucommons.gpu.linux.processes import LinuxProcesses
from gpucommons.gpu.providers.base import Held
from gpucommons.gpu.providers.node.shim import ShimProvider
from gpucommons.gpu.shim import folder as shim_folder
from gpucommons.gpu.slices.slice_folders import SliceFolders
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads Linux' /proc")

#: Its first thread ends, and the second goes on with whatever the process holds.
HEADLESS = """
import ctypes, mmap, sys, threading
kept = open(sys.argv[1], "rb")
mapped = mmap.mmap(kept.fileno(), 0, access=mmap.ACCESS_READ)
threading.Thread(target=lambda: (print("ready", flush=True), sys.stdin.read())).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def maps_of(proc: Path, *lines: str) -> Path:
    (proc / "7").mkdir(parents=True)
    (proc / "7" / "maps").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return proc


def a_slice(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "libcuda.so.1").write_bytes(b"the shim")
    return folder


def mapped(inode: int, path: str) -> str:
    return f"7f0000000000-7f0000001000 r-xp 00000000 08:01 {inode}    {path}"


@pytest.fixture
def headless(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    library = a_slice(tmp_path / "slice") / "libcuda.so.1"
    with subprocess.Popen(
        [sys.executable, "-c", HEADLESS, str(library)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        while " Z " not in Path(f"/proc/{process.pid}/stat").read_text():
            os.sched_yield()
        yield process
        process.kill()


def test_a_process_whose_first_thread_ended_is_alive_seen_and_stopped(
    headless: subprocess.Popen[str], tmp_path: Path
) -> None:
    processes = LinuxProcesses()
    stat = processes.stat(headless.pid)

    assert stat is not None
    assert shim.shimmed(tmp_path / "slice", headless.pid) is True
    assert signal_process(stat.pid, stat.start, signal.SIGKILL, processes.stat)
    headless.wait()
    assert processes.stat(headless.pid) is None


@pytest.mark.parametrize("odd", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", " ", "\\012"])
def test_names_of_mapped_files_are_only_names(tmp_path: Path, odd: str) -> None:
    folder = a_slice(tmp_path / "slice")
    inode = (folder / "libcuda.so.1").stat().st_ino
    proc = maps_of(tmp_path / "proc", mapped(1, f"/x/a{odd}/libcuda.so.1"), mapped(2, "/x"))
    assert shim.shimmed(folder, 7, proc) is False
    proc = maps_of(
        tmp_path / "more", mapped(1, f"/x/{odd}/b"), mapped(inode, f"{folder}/libcuda.so.1")
    )
    assert shim.shimmed(folder, 7, proc) is True


def test_who_maps_too_much_to_be_read_is_not_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_slice(tmp_path / "slice")
    ours = mapped((folder / "libcuda.so.1").stat().st_ino, f"{folder}/libcuda.so.1")
    proc = maps_of(tmp_path / "proc", ours, *(mapped(9, f"/x/{n}") for n in range(100)))
    assert shim.shimmed(folder, 7, proc) is True
    monkeypatch.setattr(shim_folder, "_MAX_MAPS_BYTES", 1000)
    assert shim.shimmed(folder, 7, proc) is False


def test_who_holds_the_card_without_any_driver_to_be_seen_is_a_stray(tmp_path: Path) -> None:
    card = Device(device_id=DeviceId("GPU-0"), index=0, kind="A100-40", memory_mib=40960)
    share = DeviceShare(device_id=card.device_id, milli_gpu=500)
    held = Held(
        slice=GpuSlice(slice_id=SliceId("a"), shares=(share,), memory_mib=19866), devices=(card,)
    )
    provider = ShimProvider(SliceFolders(tmp_path), own_uid=os.geteuid())
    a_slice(tmp_path / "a" / "shim")
    gone: Any = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()

    assert provider.strays(held, [os.getpid(), gone.pid]) == {os.getpid()}
