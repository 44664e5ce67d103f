"""What is said of a stopped job is known: from where it goes on, and what is done again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import World, a_job, a_node, a_team

from gpucommons.scheduler.core.going_on import drill_verdict, words
from gpucommons.scheduler.core.going_on.ways import Way, WayToGoOn, way_to_go_on
from gpucommons.scheduler.core.model.intents import Pause, Resume
from gpucommons.scheduler.core.model.state import (
    AttemptEnded,
    CheckpointReported,
    ProgressReported,
)
from gpucommons.scheduler.core.model.types import Checkpoint, Millis, Progress, Workload, WorkloadId


@pytest.fixture
def world() -> World:
    return World(a_node(gpus=2), teams=[a_team(guaranteed_milli_gpu=2000)])


def save(world: World, job: WorkloadId, step: int) -> None:
    attempt_id = world.attempt_id(job)
    saved = Checkpoint(
        attempt_id=attempt_id,
        step=step,
        path=f"checkpoints/step-{step}",
        size_bytes=1,
        sha256="0" * 64,
        at_ms=world.now,
    )
    world.step(CheckpointReported(attempt_id=attempt_id, checkpoint=saved))


def way_of(world: World, job: WorkloadId) -> WayToGoOn:
    found = way_to_go_on(world.get(job))
    assert found is not None
    return found


def with_files(workload: Workload, count: int | None) -> Workload:
    attempts = tuple(replace(attempt, files_kept=count) for attempt in workload.attempts)
    return replace(workload, attempts=attempts)


def test_of_a_job_that_never_ran_nothing_is_said(world: World) -> None:
    assert way_to_go_on(world.get(world.submit(a_job()))) is None


def test_a_job_without_a_checkpoint_starts_anew_and_finds_its_files_if_it_wrote_any(
    world: World,
) -> None:
    job = world.run(a_job())
    world.wait(12 * 60_000)
    way = way_of(world, job)
    assert way.way is Way.START_OVER
    assert words.goes_on(way) == (
        "starts its command anew and finds the files that it wrote, if any are kept"
    )
    said = words.before_a_pause(way, world.now)
    assert said == (
        "Starts its command anew and finds the files that it wrote, if any are kept; what it did"
        " since it last saved is repeated, 12 min of work at most."
    )


def test_a_checkpoint_is_named_with_the_work_since_then(world: World) -> None:
    job = world.run(a_job())
    world.wait(60_000)
    save(world, job, 5430)
    world.wait(40_000)
    way = way_of(world, job)
    assert way.way is Way.CHECKPOINT
    assert words.goes_on(way) == "goes on from step 5,430"
    said = words.before_a_pause(way, world.now)
    assert said == "Goes on from step 5,430; at most 40 s of work since then is repeated."


def test_what_counts_epochs_reads_epochs(world: World) -> None:
    job = world.run(a_job())
    progress = Progress(step=3, metrics={"epoch": 3.0})
    world.step(ProgressReported(attempt_id=world.attempt_id(job), progress=progress))
    save(world, job, 3)
    assert words.goes_on(way_of(world, job)) == "goes on from epoch 3"


def test_an_attempt_that_resumed_repeats_its_own_work_only(world: World) -> None:
    job = world.run(a_job())
    save(world, job, 7)
    world.wait(600_000)
    world.ask(Pause(workload_id=job))
    world.end(job, 143)
    assert way_of(world, job).since_ms is None
    assert words.before_a_pause(way_of(world, job), world.now) == "Goes on from step 7."
    world.ask(Resume(workload_id=job))
    world.start(job)
    world.wait(5_000)
    assert way_of(world, job).since_ms == world.now - 5_000


def test_once_it_is_known_that_no_file_was_changed_the_loss_is_certain(world: World) -> None:
    job = world.run(a_job())
    world.wait(12 * 60_000)
    found = way_to_go_on(with_files(world.get(job), 0))
    assert found is not None
    said = words.before_a_pause(found, world.now)
    assert said == "Starts over when resumed: 12 min of work is lost."


@pytest.mark.parametrize(
    ("files", "way", "text"),
    [
        (3, Way.WORKING_FOLDER, "starts its command anew and finds the files that it wrote"),
        (
            0,
            Way.START_OVER,
            "starts over, because it has saved no checkpoint and changed no file in its working"
            " folder",
        ),
        (
            None,
            Way.START_OVER,
            "starts its command anew and finds the files that it wrote, if any are kept",
        ),
    ],
)
def test_files_count_once_they_are_known_to_be_kept(
    world: World, files: int | None, way: Way, text: str
) -> None:
    job = world.run(a_job())
    found = way_to_go_on(with_files(world.get(job), files))
    assert found is not None
    assert (found.way, words.goes_on(found)) == (way, text)


def test_a_checkpoint_is_stronger_than_files(world: World) -> None:
    job = world.run(a_job())
    save(world, job, 7)
    found = way_to_go_on(with_files(world.get(job), 9))
    assert found is not None
    assert found.way is Way.CHECKPOINT


def test_of_files_it_is_said_that_how_much_is_repeated_is_a_bound(world: World) -> None:
    job = world.run(a_job())
    world.wait(90_000)
    found = way_to_go_on(with_files(world.get(job), 1))
    assert found is not None
    assert words.before_a_pause(found, world.now) == (
        "Starts its command anew and finds the files that it wrote; what it did since it last saved"
        " is repeated, 90 s of work at most."
    )


def tell(world: World, job: WorkloadId, step: int) -> None:
    progress = Progress(step=step, at_ms=world.now)
    world.step(ProgressReported(attempt_id=world.attempt_id(job), progress=progress))


def stopped_and_back(world: World, job: WorkloadId) -> None:
    world.ask(Pause(workload_id=job))
    attempt_id = world.attempt_id(job)
    world.step(AttemptEnded(attempt_id=attempt_id, exit_code=143, told=True, files_kept=2))
    world.ask(Resume(workload_id=job))
    world.start(job)


def with_own_files(world: World, *, reached: int) -> WorkloadId:
    """It ran for ten minutes, was stopped at that step, and runs again with its files."""
    job = world.run(a_job())
    world.wait(600_000)
    tell(world, job, reached)
    stopped_and_back(world, job)
    return job


STARTS_OVER = "it has saved no checkpoint and did not go on where it was stopped"


@pytest.mark.parametrize("again", [0, 7])
def test_what_was_seen_to_begin_again_starts_over_wherever_it_is_said(
    world: World, again: int
) -> None:
    job = with_own_files(world, reached=810)
    assert words.began_anew(way_of(world, job)) == (
        "Its command was started anew once; whether it went on is not known."
    )
    world.wait(6_000)
    tell(world, job, again)
    world.wait(54_000)
    assert world.get(job).attempts[0].ended_text == (
        "Paused by ann: starts its command anew and finds the files that it wrote; what it did since it"
        " last saved is repeated, 10 min of work at most; it did not: it had step 810 and began again at"
        f" step {again}"
    )
    way = way_of(world, job)
    assert way.way is Way.START_OVER
    assert words.before_a_pause(way, world.now) == (
        "Starts over when resumed: 60 s of work is lost, unless its script goes on from files of its"
        " own."
    )
    assert words.began_anew(way) == (
        "Its command was started anew once; it did not go on where it was stopped."
    )
    world.ask(Pause(workload_id=job))
    world.step(
        AttemptEnded(attempt_id=world.attempt_id(job), exit_code=143, told=True, files_kept=2)
    )
    ended = world.get(job).attempts[-1].ended_text
    assert ended is not None
    assert ended.endswith(
        f"starts over, because {STARTS_OVER}; 60 s of work is lost, unless its script goes on from"
        " files of its own"
    )
    waits = way_of(world, job)
    assert waits.way is Way.START_OVER
    assert words.is_told(ended, waits)


def test_what_began_behind_its_step_but_not_at_its_start_goes_on_from_its_files(
    world: World,
) -> None:
    job = with_own_files(world, reached=810)
    world.wait(5_000)
    tell(world, job, 800)
    way = way_of(world, job)
    assert way.way is Way.WORKING_FOLDER
    assert words.began_anew(way) == (
        "Its command was started anew once; it began again at step 800 after attempt 1."
    )
    assert words.before_a_pause(way, world.now) == (
        "Starts its command anew and finds the files that it wrote; what it did since it last saved"
        " is repeated, 5 s of work at most."
    )


def test_what_was_told_of_a_stop_stays_however_fast_it_is_later(world: World) -> None:
    """A pace may begin anew, or be lost: the verdict was found by what was known then."""
    job = with_own_files(world, reached=810)
    world.wait(5_000)
    tell(world, job, 800)
    told = words.began_anew(way_of(world, job))
    world.wait(60_000)
    tell(world, job, 3)
    world.wait(60_000)
    tell(world, job, 4)
    assert way_of(world, job).way is Way.WORKING_FOLDER
    assert words.began_anew(way_of(world, job)) == told


def test_where_files_of_its_own_began_is_not_said(world: World) -> None:
    job = with_own_files(world, reached=810)
    world.wait(5_000)
    tell(world, job, 815)
    drill = world.get(job).drill
    assert drill is not None
    assert drill_verdict.told(drill) == (
        "It was stopped and went on from its files, step 810 or later first (5 s)."
    )


def test_what_began_again_once_and_went_on_after_a_later_stop_goes_on(world: World) -> None:
    job = with_own_files(world, reached=810)
    tell(world, job, 0)
    world.wait(1_200_000)
    tell(world, job, 2_000)
    stopped_and_back(world, job)
    assert way_of(world, job).way is Way.START_OVER, "it has not gone on yet"
    world.wait(5_000)
    tell(world, job, 2_001)
    way = way_of(world, job)
    assert way.way is Way.WORKING_FOLDER
    assert words.began_anew(way) == (
        "Its command was started anew twice; it went on after attempt 2."
    )


def test_how_often_it_began_anew_is_counted_and_said(world: World) -> None:
    job = world.run(a_job())
    said = []
    for _ in range(3):
        world.ask(Pause(workload_id=job))
        world.end(job, 143)
        world.ask(Resume(workload_id=job))
        world.start(job)
        said.append(words.began_anew(way_of(world, job)))
    assert said == [
        "Its command was started anew once; whether it went on is not known.",
        "Its command was started anew twice; whether it went on is not known.",
        "Its command was started anew 3 times; whether it went on is not known.",
    ]


@pytest.mark.parametrize(
    ("length_ms", "said"),
    [(0, "0 s"), (1, "1 s"), (119_000, "119 s"), (119_001, "2 min"), (7_200_000, "2 h")],
)
def test_lost_work_is_rounded_up(length_ms: int, said: str) -> None:
    assert words.spent(Millis(length_ms)) == said


@pytest.mark.parametrize(
    "way",
    [
        WayToGoOn(way=Way.CHECKPOINT, step=5430, since_ms=Millis(0)),
        WayToGoOn(way=Way.WORKING_FOLDER, since_ms=Millis(0)),
        WayToGoOn(way=Way.START_OVER, because="it has saved nothing", since_ms=Millis(0)),
        WayToGoOn(way=Way.START_OVER, may_find_files=True, since_ms=Millis(0)),
        WayToGoOn(way=Way.PROCESS_IMAGE),
    ],
    ids=lambda way: str(way.way),
)
def test_what_a_stop_was_said_to_come_to_is_known_to_be_told(way: WayToGoOn) -> None:
    now_told = replace(way, since_ms=None)
    assert words.is_told(
        f"Stopped for nlp: {words.with_cost(way, 720_000)}. Tries again.", now_told
    )
    assert not words.is_told("Needs 4 GPUs; 1 is free.", now_told)
    assert not words.is_told("", now_told)
