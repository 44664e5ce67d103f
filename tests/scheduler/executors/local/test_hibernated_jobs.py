"""A plain script that knows nothing of us, stopped and begun again: its processes are saved and woken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from launches import python
from real_box import Box
from saved_jobs import (
    ABLE,
    STEPS,
    criu_command,
    folder_of,
    history,
    kill_supervisor,
    running,
    steps_in_the_end,
)

from gpucommons.scheduler.core.going_on.ways import Way, way_to_go_on
from gpucommons.scheduler.core.model.intents import Pause, Resume
from gpucommons.scheduler.core.model.types import State
from gpucommons.scheduler.executors.local.attempt.saving_turns import kept_bytes
from gpucommons.scheduler.executors.local.images_of_ended_jobs import remove_images
from gpucommons.scheduler.working_folder.own_image import OwnImage

pytestmark = pytest.mark.criu


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    found = Box(tmp_path, ABLE, criu_command())
    yield found
    found.close()


def test_a_script_that_is_stopped_three_times_repeats_no_step(box: Box, tmp_path: Path) -> None:
    job = box.submit("steps", 1000, python(STEPS))
    for number in (1, 2, 3):
        box.until(lambda: job in box.loop.cluster.workloads and box.gpu_of(job) is not None)
        before = len(history(box, job))
        box.until(lambda before=before: len(history(box, job)) > before + 20)  # type: ignore[misc] # bound
        box.ask(Pause(workload_id=job))
        box.until(lambda: box.get(job).state is State.PAUSED)
        last = box.get(job).attempts[-1]
        assert (last.number, last.not_saved) == (number, "")
        assert last.image is not None
        way = way_to_go_on(box.get(job))
        assert way is not None
        assert way.way is Way.PROCESS_IMAGE
        box.ask(Resume(workload_id=job))
    box.until(lambda: job not in box.loop.cluster.workloads)
    over = box.store.workload(job)
    assert over is not None
    assert (over.state, len(over.attempts)) == (State.SUCCEEDED, 4)
    results = tmp_path / "results" / over.spec.name
    steps = [int(one) for one in (results / "history").read_text().split()]
    assert steps == list(range(1, 301))
    assert (results / "total").read_text() == str(sum(n * n for n in range(1, 301)))
    # A stop may come in the middle of a line: its rest is printed by the next attempt.
    printed = "".join(
        box.executor.folder(attempt.attempt_id).log(0).read_text() for attempt in over.attempts
    )
    assert printed == "".join(f"step {n}\n" for n in range(1, 301))


#: Holds what no image can hold, and leaves when it is told to.
UNSAVEABLE = """
import ctypes, os, signal, sys, time
libc = ctypes.CDLL(None)
seg = libc.shmget(0, 4096, 0o1600)
libc.shmat.restype = ctypes.c_void_p
assert libc.shmat(seg, None, 0) not in (None, 2 ** 64 - 1)
libc.shmctl(seg, 0, None)
def leave(*_):
    os.write(1, b"told\\n")
    sys.exit(1)
signal.signal(signal.SIGTERM, leave)
log = open("history", "a", buffering=1)
for step in range(1, 2001):
    log.write(f"{step}\\n")
    time.sleep(0.02)
"""


def test_what_cannot_be_saved_is_told_to_leave_within_its_grace_and_why_is_said(box: Box) -> None:
    job = running(box, UNSAVEABLE)
    box.ask(Pause(workload_id=job))
    box.until(lambda: box.get(job).state is State.PAUSED)
    (last,) = box.get(job).attempts
    assert (last.image, last.exit_code) == (None, 1)
    assert "had to be killed" not in (last.ended_text or "")
    assert f"its memory could not be saved: {last.not_saved}" in (last.ended_text or "")
    assert last.not_saved
    way = way_to_go_on(box.get(job))
    assert way is not None
    assert way.way is Way.WORKING_FOLDER


def test_an_image_that_is_damaged_is_not_woken_and_the_command_starts_anew(
    box: Box, tmp_path: Path
) -> None:
    job = running(box)
    box.ask(Pause(workload_id=job))
    box.until(lambda: box.get(job).state is State.PAUSED)
    assert box.get(job).attempts[0].image is not None
    image = OwnImage(run=folder_of(box, job).run).tree.folder / "image"
    pages = max(image.glob("pages-*.img"), key=lambda one: one.stat().st_size)
    pages.write_bytes(pages.read_bytes()[:-4096])
    box.ask(Resume(workload_id=job))
    steps = steps_in_the_end(box, job, tmp_path)
    over = box.store.workload(job)
    assert over is not None
    known = over.attempts[1].hibernation
    assert known is not None
    assert (known.woken_from, "damaged" in known.not_woken) == (None, True)
    # It found its own file, and did all of it again.
    assert steps[-300:] == list(range(1, 301))


def test_a_supervisor_that_is_killed_while_it_saves_doubles_nothing(
    box: Box, tmp_path: Path
) -> None:
    job = running(box)
    folder = folder_of(box, job)
    box.ask(Pause(workload_id=job))
    box.until(folder.signalled.exists)
    kill_supervisor(folder)
    box.until(lambda: box.get(job).state is State.PAUSED)
    before = history(box, job)
    box.ask(Resume(workload_id=job))
    steps = steps_in_the_end(box, job, tmp_path)
    # Either it was saved by then and went on, or it was not and began anew; never both.
    anew = [*before, *range(1, 301)]
    assert steps in (list(range(1, 301)), anew), (before, steps, box.store.workload(job))


def test_a_supervisor_that_is_killed_before_the_wake_is_over_loses_no_image(
    box: Box, tmp_path: Path
) -> None:
    job = running(box)
    box.ask(Pause(workload_id=job))
    box.until(lambda: box.get(job).state is State.PAUSED)
    box.ask(Resume(workload_id=job))
    box.until(lambda: len(box.get(job).attempts) == 2)
    folder = folder_of(box, job)
    box.until(folder.supervisor.exists)
    kill_supervisor(folder)
    box.until(lambda: box.get(job).attempts[1].ended_ms is not None)
    image = box.get(job).attempts[1].image
    assert image is not None
    # Nobody but the executor could write down that it is there.
    assert kept_bytes(folder.path.parent, image.user) == image.size_bytes > 0
    assert steps_in_the_end(box, job, tmp_path) == list(range(1, 301))


def test_what_is_saved_ends_with_its_job(box: Box, tmp_path: Path) -> None:
    job = running(box)
    box.ask(Pause(workload_id=job))
    box.until(lambda: box.get(job).state is State.PAUSED)
    own = OwnImage(run=folder_of(box, job).run)
    root = tmp_path / "state" / "attempts"
    assert remove_images(root, is_over=lambda _job: False) == 0
    assert own.has_image()
    assert remove_images(root, is_over=lambda one: one == job) == 1
    assert not own.folder.exists()
