"""The processes of a slice share one limit, whatever becomes of them."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpucommons.gpu import shim
from gpucommons.gpu.shim import layout

MIB = 1 << 20


def used_mib(folder: Path) -> float:
    view = shim.read_ledger(folder)
    assert view is not None
    return view.used_bytes / MIB


def test_two_processes_share_the_limit(client: Callable[..., Any], a_slice: Path) -> None:
    first, second = client(), client()
    held = first.alloc(3000)

    assert held
    assert not second.alloc(2000)
    assert second.alloc(1096)
    assert not second.alloc(1)
    first.free(held)
    assert second.alloc(3000)
    assert used_mib(a_slice) == 4096


def test_every_process_is_in_the_ledger_with_what_it_holds(
    client: Callable[..., Any], a_slice: Path
) -> None:
    first, second = client(), client()
    first.alloc(100)
    view = shim.read_ledger(a_slice)

    assert view is not None
    assert {holder.pid: holder.used_bytes / MIB for holder in view.holders} == {
        first.pid: 100,
        second.pid: 0,
    }
    fields = Path(f"/proc/{first.pid}/stat").read_text().rsplit(")", 1)[1].split()
    holder = next(holder for holder in view.holders if holder.pid == first.pid)
    assert holder.start == int(fields[19])
    assert Path(f"/proc/{first.pid}/ns/pid").readlink().name == f"pid:[{holder.namespace}]"
    assert view.denied == 0


def test_refusals_are_counted(client: Callable[..., Any], a_slice: Path) -> None:
    program = client()
    program.alloc(5000)
    program.alloc(6000)
    view = shim.read_ledger(a_slice)

    assert view is not None
    assert view.denied == 2


def test_what_a_killed_process_held_is_free_again(client: Callable[..., Any]) -> None:
    first, second = client(), client()
    assert first.alloc(3000)
    first.kill()

    assert second.alloc(4000)


def test_a_killed_process_that_nobody_waited_for_holds_nothing(client: Callable[..., Any]) -> None:
    first, second = client(), client()
    assert first.alloc(3000)
    os.kill(first.pid, signal.SIGKILL)
    os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie

    assert second.alloc(4000)


def test_a_stopped_process_holds_up_nobody(client: Callable[..., Any]) -> None:
    first, second = client(), client()
    assert first.alloc(1000)
    os.kill(first.pid, signal.SIGSTOP)

    assert second.alloc(3000)
    assert not second.alloc(1000)


def test_a_forked_child_counts_for_itself(client: Callable[..., Any], a_slice: Path) -> None:
    program = client()
    assert program.alloc(1000)
    [child] = program("fork")  # the parent waits for it
    assert program.alloc(2000)
    view = shim.read_ledger(a_slice)

    assert view is not None
    held = {holder.pid: holder.used_bytes / MIB for holder in view.holders}
    assert held == {program.pid: 1000, child: 2000}
    assert not program.alloc(2000)


def test_exec_ends_what_the_program_held(client: Callable[..., Any], a_slice: Path) -> None:
    program = client()
    assert program.alloc(3000)
    assert program("exec") == [0]
    assert program("cuInit", 0) == [0]

    assert used_mib(a_slice) == 0  # pid and start time are the same, the program is not
    assert shim.read_limit(a_slice) == 4096 * MIB


def test_a_reused_pid_is_another_process(
    client: Callable[..., Any], machine: Any, a_slice: Path
) -> None:
    program = client()
    data = bytearray((a_slice / "ledger").read_bytes())
    namespace = layout.parse_ledger(bytes(data)).holders[0].namespace  # type: ignore[union-attr]
    stranger = layout.pack_owner(os.getpid(), start=1)  # this pid, but long ago
    offset = layout.HEADER.size + layout.SLOT.size
    layout.SLOT.pack_into(data, offset, stranger, namespace, 1, 0, 4000 * MIB)
    layout.HEADER.pack_into(data, 0, layout.LEDGER_MAGIC, 1, layout.SLOTS, 2, 0, 0)
    with (a_slice / "ledger").open("r+b") as ledger:
        ledger.write(data)

    assert program.alloc(3000)


def test_nobody_judges_a_process_of_another_pid_namespace(
    client: Callable[..., Any], a_slice: Path
) -> None:
    program = client()
    data = bytearray((a_slice / "ledger").read_bytes())
    foreign = layout.pack_owner(3_999_999, start=1)  # no such pid here; there it may live
    offset = layout.HEADER.size + layout.SLOT.size
    layout.SLOT.pack_into(data, offset, foreign, 42, 1, 0, 4000 * MIB)
    layout.HEADER.pack_into(data, 0, layout.LEDGER_MAGIC, 1, layout.SLOTS, 2, 0, 0)
    with (a_slice / "ledger").open("r+b") as ledger:
        ledger.write(data)

    assert not program.alloc(3000)
    assert program.alloc(96)


def test_a_new_limit_holds_at_once(client: Callable[..., Any], a_slice: Path) -> None:
    program = client()
    held = program.alloc(4096)
    assert not program.alloc(1)

    shim.resize(a_slice, 6000 * MIB)
    assert program.alloc(1904)
    assert not program.alloc(1)

    shim.resize(a_slice, 1000 * MIB)  # below what it holds: nothing is taken away
    assert used_mib(a_slice) == 6000
    assert not program.alloc(1)
    program.free(held)
    assert not program.alloc(1)
    assert program("cuMemGetInfo_v2", "out", "out") == [0, 0, 1000 * MIB]


def test_a_limit_in_the_middle_of_a_change_is_waited_for(
    client: Callable[..., Any], a_slice: Path
) -> None:
    """A writer killed between the two halves leaves a limit that allows nothing."""
    program = client()
    with (a_slice / "limit").open("r+b", buffering=0) as limit:
        limit.seek(layout.LIMIT_NUMBERS_OFFSET)
        limit.write((8192 * MIB).to_bytes(8, "little"))

    assert shim.read_limit(a_slice) is None
    assert not program.alloc(1)
    shim.resize(a_slice, 8192 * MIB)
    assert program.alloc(8192)


@pytest.mark.parametrize("name", ["ledger", "limit"])
@pytest.mark.parametrize("damage", ["missing", "short", "other", "link"])
def test_without_a_valid_ledger_and_limit_everything_is_denied(
    client: Callable[..., Any], a_slice: Path, name: str, damage: str
) -> None:
    path = a_slice / name
    whole = path.read_bytes()
    path.unlink()
    if damage == "short":
        path.write_bytes(whole[:100])
    elif damage == "other":
        path.write_bytes(b"\0" * len(whole))
    elif damage == "link":
        (a_slice / "elsewhere").write_bytes(whole)
        path.symlink_to("elsewhere")
    program = client()

    assert not program.alloc(1)
    answer, free, total = program("cuMemGetInfo_v2", "out", "out")
    assert (answer, free) == (0, 0)
    assert total > 0  # programs divide by it


def test_a_full_ledger_denies_and_heals(client: Callable[..., Any], a_slice: Path) -> None:
    namespace = int(Path("/proc/self/ns/pid").readlink().name[5:-1])
    data = bytearray(layout.empty_ledger())
    layout.HEADER.pack_into(data, 0, layout.LEDGER_MAGIC, 1, layout.SLOTS, layout.SLOTS, 0, 0)
    for slot in range(layout.SLOTS):
        offset = layout.HEADER.size + slot * layout.SLOT.size
        owner = layout.pack_owner(3_000_000 + slot, start=1)
        layout.SLOT.pack_into(data, offset, owner, namespace if slot == 700 else 42, 1, 0, 0)
    (a_slice / "ledger").write_bytes(data)
    first, second = client(), client()

    assert first.alloc(1)  # in the slot of the one process that is seen to be dead
    assert not second.alloc(1)


def test_threads_of_one_process_share_it_too(machine: Any, a_slice: Path) -> None:
    done = subprocess.run(
        [machine.programs / "soak", "7", "2000", "8"],
        env=machine.env(a_slice),
        capture_output=True,
        timeout=100,
        check=True,
    )

    assert int(done.stdout) > 0  # some were refused
    assert machine.peak_mib <= 4096
    assert used_mib(a_slice) == 0


def test_who_asks_within_the_limit_is_never_refused(machine: Any, tmp_path: Path) -> None:
    """Eight ask at once, all the time, for what just fits together."""
    folder = machine.slice(tmp_path / "tight", 8 * 2)
    env = machine.env(folder, FAKE_CUDA_ALONE="1")
    started = [
        subprocess.Popen([machine.programs / "pairs", "50000"], env=env, stdout=subprocess.DEVNULL)
        for _ in range(8)
    ]

    assert {process.wait(timeout=100) for process in started} == {0}
    view = shim.read_ledger(folder)
    assert view is not None
    assert (view.denied, view.used_bytes) == (0, 0)


def test_random_work_with_kills_and_forks_never_passes_the_limit(
    machine: Any, a_slice: Path, client: Callable[..., Any]
) -> None:
    """The whole of it, 10,000 operations each, is in ``benchmarks.slices``."""
    limits = [4096, 2500, 4096]
    started = [
        subprocess.Popen(
            [machine.programs / "soak", str(seed), "1500", "1", *(["dangerous"] * (seed % 2))],
            env=machine.env(a_slice),
            stdout=subprocess.PIPE,
        )
        for seed in range(8)
    ]
    stopped = threading.Event()

    def resize() -> None:
        while not stopped.wait(0.01):
            limits.append(limits.pop(0))
            shim.resize(a_slice, limits[0] * MIB)

    resizing = threading.Thread(target=resize)
    resizing.start()
    time.sleep(0.2)
    started[0].kill()
    for process in started:
        process.communicate(timeout=100)
    stopped.set()
    resizing.join()

    assert {process.returncode for process in started[2::2]} == {0}
    assert 2500 < machine.peak_mib <= 4096
    shim.resize(a_slice, 4096 * MIB)
    assert client().alloc(4096)  # whatever the killed ones held is free again
