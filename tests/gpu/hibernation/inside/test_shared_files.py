"""Memory that programs share through files without a name: it is saved, and gone once nobody holds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucommons.gpu.hibernation.inside import shared_memory
from gpucommons.gpu.hibernation.preload import library
from gpucommons.gpu.hibernation.tree import HibernatableTree, Saved
from tests.gpu.hibernation.conftest import Start, line, python

pytestmark = pytest.mark.criu
_SECONDS = 60

COMMON = """
import multiprocessing, os, sys, time
from multiprocessing import shared_memory
def names():
    return sorted(os.listdir("/dev/shm"))
def size():
    return sum(os.stat(f"/dev/shm/{name}").st_size for name in names()) >> 20
"""
#: As `RawArray` and `Value` do it, and whoever removes a name at once; a child writes into both.
SHARED = """
array, value = multiprocessing.RawArray("d", 4000), multiprocessing.Value("i", 5)
memory = shared_memory.SharedMemory(create=True, size=100)
memory.unlink()
child = os.fork()
if child:
    print("ready", flush=True)
time.sleep(1)
if not child:
    array[7], value.value, memory.buf[0] = 2.5, 6, 9
    os._exit(0)
os.waitpid(child, 0)
print(array[7], value.value, memory.buf[0], flush=True)
"""
#: 20 MiB at a time, of which it holds three: as a data loader's batches.
BATCHES = """
held = []
most = 0
for _ in range(40):
    one = shared_memory.SharedMemory(create=True, size=20 << 20)
    one.unlink()
    held.append(one)
    if len(held) > 3:
        held.pop(0).close()
    most = max(most, size())
print(most, flush=True)
while held:
    held.pop().close()
while names():
    time.sleep(0.1)
print("empty", flush=True)
"""
#: The same number of a process again, whose earlier file a child still uses.
AGAIN = """
file = open("/dev/shm/file", "wb")
os.unlink(file.name)
if not os.fork():
    time.sleep(1000)
if len(sys.argv) == 2:
    os.execv(sys.executable, [sys.executable, "-c", sys.argv[1], sys.argv[1], "again"])
print(names(), flush=True)
time.sleep(1000)
"""


@pytest.fixture(autouse=True)
def _built() -> None:
    if library() is None:
        pytest.skip("without a compiler the library that keeps names is not there")


def test_arrays_and_values_of_several_processes_are_saved(
    tree: HibernatableTree, start: Start
) -> None:
    assert line(start(tree.run_command(python(COMMON + SHARED)))) == "ready"
    answer = tree.save(_SECONDS)
    assert isinstance(answer, Saved), answer

    assert line(start(tree.wake_command())) == "2.5 6 9"


def test_what_nobody_holds_any_more_takes_no_memory(tree: HibernatableTree, start: Start) -> None:
    process = start(tree.run_command(python(COMMON + BATCHES)))

    assert int(line(process)) <= 20 * 6
    assert line(process) == "empty"


def test_two_programs_of_one_number_hide_two_files(tree: HibernatableTree, start: Start) -> None:
    process = start(tree.run_command([*python(COMMON + AGAIN), COMMON + AGAIN]))

    assert line(process) == "['.gone.2.0', '.gone.2.1']"


def test_only_hidden_files_that_nobody_holds_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_memory, "_PLACE", tmp_path)
    for name in ("named", ".gone.2.0", ".gone.2.1", ".gone.2.2"):
        (tmp_path / name).write_bytes(b"1")
    (tmp_path / ".gone.2.3").symlink_to(tmp_path / "named")
    with (tmp_path / ".gone.2.0").open("rb"), (tmp_path / ".gone.2.1").open("r+b"):
        shared_memory.remove_unheld()
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            ".gone.2.0", ".gone.2.1", ".gone.2.3", "named"
        ]  # fmt: skip
    shared_memory.remove_unheld()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".gone.2.3", "named"]
