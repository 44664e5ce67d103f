"""What holds GPU memory is parked before it is saved, and has it again when it is woken."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.inside import gpu_memory
from gpucommons.gpu.hibernation.self_test import gpu_self_test
from gpucommons.gpu.hibernation.tree import HibernatableTree, Refused, Saved
from gpucommons.gpu.parking import parking as parking_module
from gpucommons.gpu.parking import processes as parking_processes
from gpucommons.gpu.parking.parking import NotParked
from tests.gpu.hibernation.conftest import Start, line, python

pytestmark = pytest.mark.criu
_SECONDS = 60
CARD_0, CARD_1 = (f"GPU-{uuid.UUID(bytes=bytes([number]) * 16)}" for number in range(2))
#: Devices that CRIU knows nothing of, the first that may be opened is held as the real driver does it.
_DEVICES = ("/dev/autofs", "/dev/rtc0", "/dev/vga_arbiter", "/dev/udmabuf")
#: Takes 8 MiB of the card and says what it finds there, for each line of a FIFO.
PROGRAM = """
import ctypes, sys
cuda = ctypes.CDLL(sys.argv[1])
context, address, size = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_size_t(8 << 20)
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
name = "cuMemAllocManaged" if sys.argv[3:] else "cuMemAlloc_v2"
assert getattr(cuda, name)(ctypes.byref(address), size, 1) == 0
assert cuda.cuMemcpyHtoD_v2(address, b"kept", ctypes.c_size_t(4)) == 0
print("ready", flush=True)
while True:
    with open(sys.argv[2]) as asked:
        for _ in asked:
            found = ctypes.create_string_buffer(4)
            assert cuda.cuMemcpyDtoH_v2(found, address, ctypes.c_size_t(4)) == 0
            print(found.raw.decode(), flush=True)
"""


def held_device() -> str | None:
    for path in _DEVICES:
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        except OSError:
            continue
        return path
    return None


@pytest.fixture
def make(
    criu: Criu, parking_card: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Path | None], HibernatableTree]:
    """A tree in the same folder, with a driver or without."""
    (tmp_path / "tree").mkdir(mode=0o700)
    os.mkfifo(tmp_path / "go")
    device = held_device()
    if device is not None:
        monkeypatch.setenv("FAKE_CUDA_DEVICE", device)
    return lambda driver: HibernatableTree(tmp_path / "tree", criu, driver=driver)


def program(tree: HibernatableTree, driver: Path, *words: str) -> list[str]:
    return tree.run_command([*python(PROGRAM), str(driver), str(go(tree)), *words])


def go(tree: HibernatableTree) -> Path:
    return tree.folder.parent / "go"


def ask(tree: HibernatableTree) -> None:
    with go(tree).open("w") as stream:
        stream.write("\n")


Make = Callable[[Path | None], HibernatableTree]


def test_gpu_memory_goes_with_the_image_and_comes_back(
    make: Make, parking_driver: Path, parking_card: Any, start: Start
) -> None:
    tree = make(parking_driver)
    first = start(program(tree, parking_driver))
    assert line(first) == "ready"
    assert parking_card.used_mib == 8

    saved = tree.save(_SECONDS)
    first.wait()

    assert isinstance(saved, Saved), saved
    assert parking_card.used_mib == 0
    image = tree.image()
    assert image is not None
    assert (len(image.parked), image.gpus) == (1, (CARD_0,))
    second = start(tree.wake_command())
    assert tree.awake(_SECONDS) is None
    assert tree.why_parked() is None
    assert parking_card.used_mib == 8
    ask(tree)
    assert line(second) == "kept"


def test_where_its_gpu_is_missing_it_lives_on_without_and_goes_on_at_the_next_wake(
    make: Make,
    parking_driver: Path,
    parking_card: Any,
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = make(parking_driver)
    first = start(program(tree, parking_driver))
    line(first)
    assert isinstance(tree.save(_SECONDS), Saved)
    first.wait()

    def wake(number: str) -> tuple[Any, str | None]:
        monkeypatch.setenv("FAKE_CUDA_CARD_NUMBER", number)
        woken = start(tree.wake_command())
        assert tree.awake(_SECONDS) is None
        return woken, tree.why_parked()

    second, because = wake("1")
    assert because == f"Its GPU memory is kept. It was on {CARD_0}, and this is {CARD_1}."
    assert parking_card.used_mib == 0
    ask(tree)  # what it is asked for waits for its GPU
    assert isinstance(tree.save(_SECONDS), Saved)
    second.wait()
    third, because = wake("0")

    assert because is None
    assert line(third) == "kept"


def test_what_cannot_be_parked_is_not_saved_and_says_why(
    make: Make, parking_driver: Path, parking_card: Any, start: Start
) -> None:
    tree = make(parking_driver)
    begun = start(program(tree, parking_driver, "managed"))
    line(begun)

    answer = tree.save(_SECONDS)

    assert isinstance(answer, Refused)
    assert answer.because.startswith(
        "It holds memory of a GPU that could not be saved. It uses memory that the driver cannot park"
    )
    assert answer.alive


def test_a_save_that_fails_later_gives_the_gpu_back(
    make: Make, parking_driver: Path, parking_card: Any, start: Start
) -> None:
    tree = make(parking_driver)
    begun = start(program(tree, parking_driver))
    line(begun)

    refused = tree.save(_SECONDS, most_bytes=1)
    ask(tree)

    assert isinstance(refused, Refused)
    assert re.match(r"Saving it may take \d+ MiB", refused.because)
    assert line(begun) == "kept"
    assert parking_card.used_mib == 8


#: As an errand that a crash ends behind its first step.
LOCK = """
import sys
from pathlib import Path
from gpucommons.gpu.parking.driver import Driver
Driver(Path(sys.argv[1])).lock(int(sys.argv[2]), 1000)
"""


def test_a_park_that_crashes_half_way_leaves_nobody_waiting_for_the_gpu(
    parking: Any, parking_driver: Path, parking_card: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashed = NotParked(because="The driver crashed.", usable=False)
    held = subprocess.Popen(
        parking.command(parking_driver), env=parking_card.env(), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert held.stdout is not None
    assert held.stdout.readline() == "0 0000\n"

    def park(*_: object, **__: object) -> NotParked:
        lock = [sys.executable, "-c", LOCK, str(parking_driver), str(held.pid)]
        subprocess.run(lock, check=True, env=parking_card.env())
        return crashed

    monkeypatch.setattr(parking_module, "park", park)
    monkeypatch.setattr(gpu_memory.processes, "numbers", lambda: (held.pid,))

    told = gpu_memory.leave(str(parking_driver), gpu_memory.OnHost(), _SECONDS)

    because = "It holds memory of a GPU that could not be saved. The driver crashed."
    assert told == because
    said, _ = held.communicate("\n")
    assert said.startswith("1 0000\n")
    # Where that fails, too, it is said.
    monkeypatch.setattr(parking_module, "park", lambda *_, **__: crashed)
    monkeypatch.setattr(parking_processes, "with_driver", tuple)
    monkeypatch.setattr(parking_module, "unpark", lambda *_, **__: crashed)
    told = gpu_memory.leave(str(parking_driver), gpu_memory.OnHost(), _SECONDS)
    assert told == f"{because} Its GPU memory did not come back. The driver crashed."


def test_without_a_driver_that_was_tried_a_gpu_is_a_device_as_ever(
    make: Make, parking_driver: Path, parking_card: Any, start: Start
) -> None:
    if held_device() is None:
        pytest.skip("no device here that everybody may open")
    tree = make(None)
    line(start(program(tree, parking_driver)))

    answer = tree.save(_SECONDS)

    assert isinstance(answer, Refused)
    assert answer.because == f"It holds a device: {held_device()}."


def test_what_keeps_to_a_part_of_a_gpu_ends_with_its_server(
    make: Make, parking_driver: Path, parking_card: Any, start: Start, tmp_path: Path
) -> None:
    interposer = tmp_path / "libcuda.so.1"
    interposer.write_bytes(parking_driver.read_bytes())
    (tmp_path / "libcuda-real.so.1").symlink_to(parking_driver)
    tree = make(parking_driver)
    line(start(program(tree, interposer)))

    answer = tree.save(_SECONDS)

    assert isinstance(answer, Refused)
    assert answer.because == (
        f"It keeps to its part of a GPU by {interposer}, which ends with its server."
    )
    assert parking_card.used_mib == 8


def test_the_self_test_tries_it(
    criu: Criu,
    parking_driver: Path,
    parking_card: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "scratch").mkdir()

    assert gpu_self_test(criu, tmp_path / "scratch", parking_driver) is None

    monkeypatch.setenv("FAKE_CUDA_MPS", "1")
    because = gpu_self_test(criu, tmp_path / "scratch", parking_driver)
    assert because is not None
    assert because.endswith("This GPU or its driver cannot.")
    assert list((tmp_path / "scratch").iterdir()) == []
