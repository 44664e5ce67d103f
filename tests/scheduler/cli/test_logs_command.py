"""Following a job through all its attempts, until it ends or Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Cli, WatchedWorld, submitted

from gpucommons.scheduler import models
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.service.jobs import jobs


def steer(world: WatchedWorld, job: models.JobView, verb: Callable[..., object]) -> None:
    verb(world.service, world.principal("ann"), job.id)
    world.pass_time(1000)


@pytest.fixture
def two_attempts(world: WatchedWorld) -> models.JobView:
    """A job that was paused once; its second attempt runs."""
    world.script = Script(lines=("first 1", "first 2"), stop_ms=0)
    job = submitted(world)
    world.pass_time(1000)
    steer(world, job, jobs.pause)
    world.script = Script(lines=("second",), run_ms=10_000)
    steer(world, job, jobs.resume)
    return job


def when_read(world: WatchedWorld, then: Callable[[], object]) -> threading.Thread:
    """Do something as soon as the command has asked for the log."""

    def wait_and_do() -> None:
        assert world.log_read.wait(60)
        then()

    thread = threading.Thread(target=wait_and_do)
    thread.start()
    return thread


def test_a_finished_job_is_printed_through_all_its_attempts(
    cli: Cli, world: WatchedWorld, two_attempts: models.JobView
) -> None:
    world.pass_time(20_000)

    answer = cli("logs", "-f", two_attempts.name)

    assert (answer.code, answer.out) == (0, "first 1\nfirst 2\nsecond\n")
    assert answer.err == f"--- attempt 2 ---\n{two_attempts.name} finished\n"


def test_without_follow_it_is_one_attempts_log(cli: Cli, two_attempts: models.JobView) -> None:
    newest = cli("logs", two_attempts.name)
    assert newest.out == "second\n"
    assert newest.err == "attempt 2 of 2; --attempt 1 shows the one before\n"
    first = cli("logs", two_attempts.name, "--attempt", "1")
    assert (first.out, first.err) == ("first 1\nfirst 2\n", "")
    assert cli("logs", two_attempts.name, "--output", "json").json == ["second"]
    missing = cli("logs", two_attempts.name, "--attempt", "9")
    assert (missing.code, "has 2 attempts" in missing.err) == (4, True)
    rank = cli("logs", two_attempts.name, "--rank", "9")
    assert (rank.code, "no rank 9" in rank.err) == (4, True)


@pytest.mark.parametrize(
    ("ran", "said"),
    [
        ((1, 3), "attempt 3 of 3; --attempt 1 shows the one before\n"),
        ((3,), "attempt 3 of 3, the first that ran\n"),
    ],
)
def test_an_attempt_that_never_ran_is_not_named_as_the_one_before(
    cli: Cli,
    world: WatchedWorld,
    two_attempts: models.JobView,
    monkeypatch: pytest.MonkeyPatch,
    *,
    ran: tuple[int, ...],
    said: str,
) -> None:
    world.pass_time(1000)
    steer(world, two_attempts, jobs.pause)
    steer(world, two_attempts, jobs.resume)
    known = jobs.job

    def withdrawn_before_its_start(*asked: Any) -> models.JobView:
        view = known(*asked)
        attempts = [
            one if one.number in ran else one.model_copy(update={"started_ms": None})
            for one in view.attempts
        ]
        return view.model_copy(update={"attempts": attempts})

    monkeypatch.setattr(jobs, "job", withdrawn_before_its_start)
    assert cli("logs", two_attempts.name).err == said


def test_following_ends_with_the_job(
    cli: Cli, world: WatchedWorld, two_attempts: models.JobView
) -> None:
    ending = when_read(world, lambda: world.pass_time(20_000))

    answer = cli("logs", "-f", two_attempts.id)

    ending.join()
    assert (answer.code, answer.out) == (0, "first 1\nfirst 2\nsecond\n")


def test_following_goes_on_with_an_attempt_that_begins_meanwhile(
    cli: Cli, world: WatchedWorld
) -> None:
    world.script = Script(lines=("first",), stop_ms=0)
    job = submitted(world)
    world.pass_time(1000)

    def another_attempt() -> None:
        steer(world, job, jobs.pause)
        world.script = Script(lines=("second",), run_ms=1000)
        steer(world, job, jobs.resume)
        world.pass_time(5000)

    ending = when_read(world, another_attempt)
    answer = cli("logs", "-f", job.name)

    ending.join()
    assert (answer.code, answer.out) == (0, "first\nsecond\n")


def test_a_failed_job_fails_the_command_that_follows_it(
    cli: Cli, world: WatchedWorld, script: Path
) -> None:
    world.script = Script(lines=("broken",), run_ms=1000, exit_code=2)
    ending = when_read(world, lambda: world.pass_time(5000))

    answer = cli("submit", str(script), "--follow")

    ending.join()
    assert (answer.code, answer.out) == (1, "train-1 submitted\nbroken\n")
    assert answer.err.splitlines()[-1] == "train-1 failed"


def test_ctrl_c_ends_the_looking_and_not_the_job(cli: Cli, world: WatchedWorld) -> None:
    world.script = Script(lines=())
    job = submitted(world)
    world.pass_time(1000)

    def interrupt() -> None:
        # Not before the command sits and waits: a test is not the place for any other moment.
        assert world.log_awaited.wait(60)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    leaving = when_read(world, interrupt)
    answer = cli("logs", "-f", job.name)

    leaving.join()
    assert (answer.code, "Traceback" in answer.err) == (130, False)
    assert cli("show", job.name, "--output", "json").json["state"] == "running"
