"""Jobs whose processes cannot be saved: each is told why on its page, leaves by itself, and loses no file."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_box import Box
from saved_jobs import (
    ABLE,
    before_criu,
    criu_command,
    folder_of,
    history,
    paused,
    running,
)

from gpucommons.gpu.linux import mounts
from gpucommons.scheduler.core.going_on import words
from gpucommons.scheduler.core.going_on.ways import Way, way_to_go_on
from gpucommons.scheduler.core.model.intents import Resume
from gpucommons.scheduler.core.model.types import State, WorkloadId

pytestmark = pytest.mark.criu

#: What is refused is refused at once; what is saved may take its time on a busy machine.
PATIENT_MS = 100_000
#: Counts on until it is told to leave, and goes on from its own file when it is started again.
COUNTING = """
import os, signal, sys, time
def leave(*_):
    sys.exit(1)
signal.signal(signal.SIGTERM, leave)
log = open("history", "a+", buffering=1)
log.seek(0)
done = len(log.readlines())
{hold}
for step in range(done + 1, {steps} + 1):
    log.write(f"{{step}}\\n")
    time.sleep(0.02)
"""
FORKS = """
def spawn():
    while True:
        pid = os.fork()
        if not pid:
            os._exit(0)
        os.waitpid(pid, 0)
import threading
threading.Thread(target=spawn, daemon=True).start()
"""
IO_URING = "import ctypes\nassert ctypes.CDLL(None).syscall(425, 4, (ctypes.c_char * 120)()) >= 0\n"


def counting(hold: str) -> str:
    return COUNTING.format(hold=hold, steps=20_000)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    found = Box(tmp_path, ABLE, criu_command(), grace_ms=PATIENT_MS)
    yield found
    found.close()


@pytest.fixture
def database() -> Iterator[int]:
    """The port of something that is connected to."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def refused(box: Box, script: str) -> str:
    """Why a job that is paused was not saved: it left by itself, and what it wrote is there."""
    job = running(box, script)
    paused(box, job)
    (last,) = box.get(job).attempts
    assert (last.image, last.exit_code) == (None, 1), last
    text = last.ended_text or ""
    assert "had to be killed" not in text
    assert f"(its memory could not be saved: {last.not_saved})" in text
    way = way_to_go_on(box.get(job))
    assert way is not None
    # On a busy machine nobody may have counted its files yet.
    assert way.way in {Way.WORKING_FOLDER, Way.START_OVER}
    assert words.goes_on(way).partition(",")[0] in text
    goes_on(box, job)
    return last.not_saved


def goes_on(box: Box, job: WorkloadId) -> None:
    """The weaker way holds: its file is whole, and it writes on where that ends."""
    path = folder_of(box, job).run / "work" / "history"
    before = [int(line) for line in path.read_text().split()]
    assert before == list(range(1, len(before) + 1))
    box.ask(Resume(workload_id=job))
    box.until(lambda: box.get(job).state is State.RUNNING)
    box.until(lambda: len(history(box, job)) > len(before) + 5)
    after = history(box, job)
    assert after == list(range(1, len(after) + 1))


def test_a_connection_to_a_database(box: Box, database: int) -> None:
    hold = f"import socket\nheld = socket.create_connection(('127.0.0.1', {database}))"
    assert refused(box, counting(hold)) == "it holds a network connection"


def test_io_uring(box: Box) -> None:
    tried = subprocess.run([sys.executable, "-c", IO_URING], check=False, capture_output=True)
    if tried.returncode:
        pytest.skip("this kernel forbids io_uring")
    assert refused(box, counting(IO_URING)) == "it uses io_uring"


def test_a_device(box: Box) -> None:
    if not os.access("/dev/fuse", os.R_OK):
        pytest.skip("there is no device here that this user may open")
    assert (
        refused(box, counting("held = open('/dev/fuse', 'rb')")) == "it holds a device: /dev/fuse"
    )


def test_what_forks_all_the_time_is_saved_and_goes_on(box: Box) -> None:
    job = running(box, counting(FORKS))
    paused(box, job)
    assert box.get(job).attempts[0].image is not None, box.get(job).attempts[0].not_saved
    goes_on(box, job)


def test_many_open_files_go_with_it(box: Box) -> None:
    hold = "os.makedirs('many', exist_ok=True)\nheld = [open(f'many/{n}', 'w') for n in range(800)]"
    job = running(box, counting(hold))
    paused(box, job)
    assert box.get(job).attempts[0].image is not None, box.get(job).attempts[0].not_saved
    goes_on(box, job)


def test_a_save_that_was_late_is_not_tried_again_by_the_same_job(tmp_path: Path) -> None:
    slow = before_criu(tmp_path, 'if [ "$what" = dump ]; then sleep 60; fi; criu "$@"')
    box = Box(tmp_path, ABLE, slow, grace_ms=20_000)
    try:
        script = counting("held = os.urandom(600 << 20)")
        assert refused(box, script) == "it took longer than half of its grace"
        (job,) = box.loop.cluster.workloads
        paused(box, job)
        because = box.get(job).attempts[-1].not_saved
        assert because.startswith("saving its "), because
        assert "would take" in because
    finally:
        box.close()


def test_a_disk_without_room(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounts.tmpfs(disk, name="small", size_bytes=192 << 20, files=4000)
    box = Box(disk, ABLE, criu_command(), grace_ms=PATIENT_MS)
    try:
        because = refused(box, counting("held = os.urandom(190 << 20)"))
        assert because.startswith("the disk has "), because
    finally:
        box.close()
        mounts.unmount(disk)
