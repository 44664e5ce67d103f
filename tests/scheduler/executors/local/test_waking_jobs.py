"""Whatever comes between while a job is being woken: nothing runs twice, and what is said is so."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from launches import python
from real_box import Box
from saved_jobs import (
    ABLE,
    ALL,
    STEPS,
    before_criu,
    criu_command,
    folder_of,
    history,
    kill_supervisor,
    paused,
    running,
    steps_in_the_end,
)

from gpucommons.scheduler.core.going_on.ways import Way, WayToGoOn, way_to_go_on
from gpucommons.scheduler.core.model.intents import Pause, Resume
from gpucommons.scheduler.core.model.types import AttemptState, State, WorkloadId
from gpucommons.scheduler.working_folder.own_image import OwnImage

pytestmark = pytest.mark.criu
MakeBox = Callable[[tuple[str, ...]], Box]


@pytest.fixture
def make_box(tmp_path: Path) -> Iterator[MakeBox]:
    made: list[Box] = []

    def make(criu: tuple[str, ...]) -> Box:
        made.append(Box(tmp_path, ABLE, criu))
        return made[-1]

    yield make
    for box in made:
        box.close()


def way_of(box: Box, job: WorkloadId) -> WayToGoOn:
    way = way_to_go_on(box.get(job))
    assert way is not None
    return way


def being_woken(box: Box, job: WorkloadId, sign: Path) -> None:
    """Begin the next attempt, up to where its image is in the hands of what comes before CRIU."""
    box.ask(Resume(workload_id=job))
    box.until(sign.exists)
    assert box.get(job).attempts[-1].state is not AttemptState.RUNNING


#: Waits before it wakes anything, and after everything was woken.
WAIT_BEFORE = '[ "$what" = restore ] && here touch begun && until here test -e go; do sleep 0.05; done\ncriu "$@"'
WAIT_AFTER = (
    '[ "$what" = restore ] || { criu "$@"; exit; }\ncriu "$@"\nstatus=$?\n'
    "here touch begun; until here test -e go; do sleep 0.05; done; exit $status"
)


def test_a_stop_before_anything_was_woken_keeps_the_image(
    make_box: MakeBox, tmp_path: Path
) -> None:
    box = make_box(before_criu(tmp_path, WAIT_BEFORE))
    job = running(box)
    paused(box, job)
    saved = box.get(job).attempts[0].image
    being_woken(box, job, tmp_path / "begun")

    paused(box, job)

    (_, second) = box.get(job).attempts
    assert (second.started_ms, second.image) == (None, saved)
    assert way_of(box, job).way is Way.PROCESS_IMAGE
    (tmp_path / "go").touch()
    box.ask(Resume(workload_id=job))
    assert steps_in_the_end(box, job, tmp_path) == ALL


def test_a_stop_after_everything_was_woken_saves_it_again(
    make_box: MakeBox, tmp_path: Path
) -> None:
    box = make_box(before_criu(tmp_path, WAIT_AFTER))
    job = running(box)
    paused(box, job)
    being_woken(box, job, tmp_path / "begun")

    box.ask(Pause(workload_id=job))
    box.until(folder_of(box, job).stop.exists)
    (tmp_path / "go").touch()
    box.until(lambda: box.get(job).state is State.PAUSED)

    way = way_of(box, job)
    second = box.get(job).attempts[1]
    assert (way.way, way.image) == (Way.PROCESS_IMAGE, second.image)
    assert second.hibernation is not None
    assert second.hibernation.woken_from == 1
    box.ask(Resume(workload_id=job))
    assert steps_in_the_end(box, job, tmp_path) == ALL


def test_an_image_that_a_stop_used_up_is_no_longer_said_to_be_saved(
    make_box: MakeBox, tmp_path: Path
) -> None:
    box = make_box(before_criu(tmp_path, WAIT_AFTER))
    job = running(box)
    paused(box, job)
    being_woken(box, job, tmp_path / "begun")

    paused(box, job)

    second = box.get(job).attempts[1]
    assert second.image is None
    assert way_of(box, job).way is not Way.PROCESS_IMAGE
    assert "could not be woken: it was stopped while it was being woken" in (
        second.ended_text or ""
    )
    assert not OwnImage(run=folder_of(box, job).run).has_image()


def test_an_image_that_was_used_when_its_supervisor_was_killed_is_not_said_to_be_saved(
    make_box: MakeBox, tmp_path: Path
) -> None:
    box = make_box(before_criu(tmp_path, WAIT_AFTER))
    job = running(box)
    paused(box, job)
    being_woken(box, job, tmp_path / "begun")

    kill_supervisor(folder_of(box, job))
    box.until(lambda: box.get(job).attempts[1].ended_ms is not None)

    known = box.get(job).attempts[1].hibernation
    assert known is not None
    assert known.not_woken == "its supervisor was killed while it was being woken"
    assert way_of(box, job).way is not Way.PROCESS_IMAGE


#: A supervisor whose errands cannot tell what became of a start, although it went well.
MUTE = """
import subprocess, sys, time
from pathlib import Path
from gpucommons.scheduler.executors import supervisor
real = supervisor.send_on_errand
FAIL = (
    "import pathlib, sys, time\\nwoken = pathlib.Path(sys.argv[1], 'hibernation', 'tree', 'woken.json')\\n"
    "while not woken.exists(): time.sleep(0.01)\\ntime.sleep(0.5)\\nsys.exit('no memory is left')"
)
left = [supervisor._TRIES]
def send(plan, words, snapshot):
    if words[0] != "tree-outcome" or plan.number == 1 or not left[0]:
        return real(plan, words, snapshot)
    left[0] -= 1
    return subprocess.Popen(
        [sys.executable, "-c", FAIL, words[1]], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
supervisor.send_on_errand = send
sys.exit(supervisor.main())
"""


def test_nothing_runs_beside_a_woken_tree_of_which_nobody_could_tell(
    make_box: MakeBox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, program = tmp_path / "mute.py", tmp_path / "python"
    code.write_text(MUTE)
    program.write_text(
        f'#!/bin/sh\ncase "$2" in *.supervisor) shift 2; exec {sys.executable} {code} "$@";; esac\n'
        f'exec {sys.executable} "$@"\n'
    )
    program.chmod(0o755)
    box = make_box(criu_command())
    job = running(box)
    paused(box, job)
    before = len(history(box, job))
    monkeypatch.setattr(sys, "executable", str(program))
    box.ask(Resume(workload_id=job))
    steps = steps_in_the_end(box, job, tmp_path)

    over = box.store.workload(job)
    assert over is not None
    known = over.attempts[1].hibernation
    assert known is not None
    assert "no memory is left" in known.not_woken
    # The woken one went on until it was ended; then all was done again, and by one process.
    assert len(steps) - 300 > before
    assert steps == [*range(1, len(steps) - 299), *ALL]


def test_what_is_printed_at_a_wake_that_fails_holds_nothing_up_and_is_cut_where_it_is_told(
    make_box: MakeBox, tmp_path: Path
) -> None:
    long = (
        '[ "$what" = restore ] || { criu "$@"; exit; }\n'
        "head -c 300000 /dev/zero | tr '\\0' x >&2\nexit 1"
    )
    box = make_box(before_criu(tmp_path, long))
    job = running(box)
    paused(box, job)
    box.ask(Resume(workload_id=job))

    steps = steps_in_the_end(box, job, tmp_path)

    assert steps[-300:] == ALL
    over = box.store.workload(job)
    assert over is not None
    known = over.attempts[1].hibernation
    assert known is not None
    assert 0 < len(known.not_woken) < 400


@pytest.mark.parametrize(
    ("name", "said"),
    [("no-such-command", "there is no command"), ("./data", "cannot be run")],
)
def test_a_command_that_cannot_run_frees_its_gpu_and_its_log_says_why(
    make_box: MakeBox, tmp_path: Path, name: str, said: str
) -> None:
    box = make_box(criu_command())
    command = (str(tmp_path / name),) if name.startswith(".") else (name,)
    (tmp_path / "data").write_text("no program")
    job = box.submit("wrong", 1000, command)

    box.until(lambda: box.store.workload(job) is not None)
    box.until(lambda: job not in box.loop.cluster.workloads)

    over = box.store.workload(job)
    assert over is not None
    first = over.attempts[0]
    assert said in (first.ended_text or "")
    text = box.executor.folder(first.attempt_id).log(0).read_text()
    assert f"gpucommons: {first.ended_text}" in text


def test_what_was_saved_waits_until_it_is_known_whether_it_can_be_woken(
    make_box: MakeBox, tmp_path: Path
) -> None:
    box = make_box(criu_command())
    job = running(box)
    paused(box, job)
    box.tested = False
    box.ask(Resume(workload_id=job))
    box.until(lambda: len(box.get(job).attempts) == 2)
    for _ in range(5):
        box.loop.cycle()
    assert not folder_of(box, job).plan.exists()

    box.tested = True

    assert steps_in_the_end(box, job, tmp_path) == ALL


def test_where_the_machine_can_no_longer_wake_it_that_is_said(
    make_box: MakeBox, tmp_path: Path
) -> None:
    box = make_box(criu_command())
    job = running(box)
    paused(box, job)
    box.can = None
    box.ask(Resume(workload_id=job))

    assert steps_in_the_end(box, job, tmp_path)[-300:] == ALL

    over = box.store.workload(job)
    assert over is not None
    known = over.attempts[1].hibernation
    assert known is not None
    assert known.not_woken == "its node cannot save and wake processes any more"


def test_what_an_announcement_signalled_is_saved_all_the_same(tmp_path: Path) -> None:
    box = Box(tmp_path, ABLE, criu_command(), notice_signal="SIGUSR1")
    deaf = f"import signal\nsignal.signal(signal.SIGUSR1, signal.SIG_IGN)\n{STEPS}"
    job = box.submit("steps", 2000, python(deaf))
    box.until(lambda: job in box.loop.cluster.workloads and box.gpu_of(job) is not None)
    box.until(lambda: len(history(box, job)) > 20)
    urgent = box.submit("urgent", 1000, ("sleep", "0"), priority="high")

    box.until(lambda: box.get(job).attempts[0].ended_ms is not None)

    first = box.get(job).attempts[0]
    assert first.image is not None, first
    assert first.image.told
    box.until(lambda: urgent not in box.loop.cluster.workloads)
    # It was told, so its end would be no success: it is begun again, and has nothing to do over.
    box.until(lambda: len(box.get(job).attempts) == 2 and box.gpu_of(job) is not None)
    known = box.get(job).attempts[1].hibernation
    assert known is not None
    assert known.woken_from == 1
    box.close()
