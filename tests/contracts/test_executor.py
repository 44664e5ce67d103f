"""The contract of every executor: fake ones in virtual time, real processes here and on a cluster."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from executor_rigs import (
    ENDS,
    PATIENCE_S,
    RUNS,
    Behaviour,
    FakeRig,
    LocalRig,
    Rig,
)

from gpucommons.scheduler.core.going_on.exits import Exit, Meaning, meaning
from gpucommons.scheduler.core.model.state import AttemptEnded, AttemptStarted, Observation
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    AttemptState,
    HoldClass,
    Kind,
    Millis,
    NodeId,
    PoolName,
    Role,
    Spec,
    State,
    Stop,
    TeamName,
    UserName,
    WorkerPlacement,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.executors.base import Launch, Live
from tests.scheduler.adapters.slurm_rigs import SlurmRig, faked

FAR = Millis(4_000_000_000_000)
#: What an attempt left is found on the whole machine: tests of another process have other ids.
_MINE = uuid.uuid4().hex[:4]
#: As a Slurm that all tests share remembers the names of jobs that are over, each test has its own.
_TESTS = count(0x8000)
_turn = next(_TESTS)


@pytest.fixture(autouse=True)
def _ids_of_this_test() -> None:
    global _turn  # noqa: PLW0603 - see above
    _turn = next(_TESTS)


@pytest.fixture(
    params=[
        "fake",
        "local",
        "slurm",
        pytest.param("real slurm", marks=pytest.mark.slurm),
        pytest.param("kubernetes", marks=pytest.mark.kubernetes),
    ]
)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    made: Rig
    if request.param == "kubernetes":
        from tests.kubernetes.executors.executor_rig import cluster_rig  # noqa: PLC0415 - seconds

        made = cluster_rig(request)
    elif request.param == "slurm":
        made = faked(tmp_path)
    elif request.param == "real slurm":
        made = SlurmRig(tmp_path, conf=str(request.getfixturevalue("real_slurm_conf")))
    else:
        made = FakeRig(tmp_path) if request.param == "fake" else LocalRig(tmp_path)
    yield made
    made.clear()


def launch(
    rig: Rig, behaviour: Behaviour, *, workers: int = 1, number: int = 1, **asked: Any
) -> Launch:
    attempt = Attempt(
        attempt_id=AttemptId(f"0190aaaa-{_MINE}-7000-{_turn:04x}-{number:012}"),
        workload_id=WorkloadId("w-1"),
        number=number,
        state=AttemptState.STARTING,
        hold_class=HoldClass.CPU,
        placements=tuple(
            WorkerPlacement(role="worker", index=index, node_id=NodeId(rig.node), cpu_milli=100)
            for index in range(workers)
        ),
        reserved_ms=rig.now(),
    )
    spec = Spec(
        kind=Kind.TRAINING,
        name="digits-1",
        team=TeamName("vision"),
        owner=UserName("ada"),
        submitted_by=UserName("ada"),
        pools=(PoolName("cpu"),),
        roles=(Role(count=workers, command=rig.command(behaviour)),),
        **asked,
    )
    workload = Workload(
        workload_id=attempt.workload_id,
        spec=spec,
        state=State.STARTING,
        submitted_ms=rig.now(),
        since_ms=rig.now(),
        attempts=(attempt,),
    )
    return Launch(
        workload=workload,
        attempt=attempt,
        token_of=lambda attempt_id: f"gca-{attempt_id}",
        api_url=rig.api_url,
    )


def stopping(rig: Rig, started: Launch, *, kill_ms: int = FAR) -> Attempt:
    stop = Stop(
        why="preempt",
        text="for nlp (its guarantee)",
        announced_ms=rig.now(),
        term_ms=rig.now(),
        kill_ms=Millis(kill_ms),
    )
    return replace(started.attempt, state=AttemptState.STOPPING, stop=stop)


def until(rig: Rig, true: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < give_up_s, "it did not happen in time"
        rig.wait(10)


def seen(rig: Rig, started: Launch, kind: type[Observation]) -> list[Observation]:
    mine = started.attempt.attempt_id
    return [o for o in rig.executor.observe() if isinstance(o, kind) and o.attempt_id == mine]  # type: ignore[union-attr] # not of nodes


def runs(rig: Rig, started: Launch) -> None:
    """Wait until all workers run and have printed."""
    until(rig, lambda: bool(seen(rig, started, AttemptStarted)))
    for rank in range(len(started.attempt.placements)):
        until(rig, lambda rank=rank: has_printed(rig, started, rank))  # type: ignore[misc] # bound


def has_printed(rig: Rig, started: Launch, rank: int) -> bool:
    """What we say in a worker's log, as of a scheduler that is late, is no sign that it runs."""
    return any(" gpucommons: " not in line for line in lines(rig, started, rank))


def end_of(rig: Rig, started: Launch) -> AttemptEnded:
    until(rig, lambda: bool(seen(rig, started, AttemptEnded)))
    end = seen(rig, started, AttemptEnded)[0]
    assert isinstance(end, AttemptEnded)
    return end


def lines(rig: Rig, started: Launch, rank: int = 0) -> list[str]:
    chunk = rig.executor.log(started.attempt, rank=rank, offset=0, limit_bytes=1 << 20)
    return list(chunk.lines)


def running(lives: Sequence[Live]) -> dict[str, bool]:
    return {live.attempt_id: live.running for live in lives}


# --- starting and ending -----------------------------------------------------------------------


def test_an_attempt_is_seen_to_start_and_to_end(rig: Rig) -> None:
    job = launch(rig, ENDS)
    rig.executor.start(job)
    end = end_of(rig, job)
    assert (end.exit_code, end.start_failed, end.killed) == (0, False, False)
    assert seen(rig, job, AttemptStarted)


def test_starting_again_changes_nothing(rig: Rig) -> None:
    job = launch(rig, RUNS)
    for _ in range(3):
        rig.executor.start(job)
    runs(rig, job)
    rig.executor.start(job)
    rig.executor.signal(stopping(rig, job), now_ms=rig.now())
    end_of(rig, job)
    rig.executor.start(job)
    rig.wait(100)
    assert end_of(rig, job).exit_code == 143
    assert rig.starts(job) == 1


def test_a_gang_starts_whole(rig: Rig) -> None:
    job = launch(rig, RUNS, workers=3)
    rig.executor.start(job)
    runs(rig, job)
    assert [lines(rig, job, rank) for rank in range(3)] == [["ready"]] * 3
    rig.executor.signal(stopping(rig, job), now_ms=rig.now())
    assert end_of(rig, job).exit_code == 143


@pytest.mark.parametrize("code", [1, 3, 143])
def test_the_exit_status_is_reported(rig: Rig, code: int) -> None:
    job = launch(rig, Behaviour(exit_code=code))
    rig.executor.start(job)
    assert end_of(rig, job).exit_code == code


def test_a_command_that_does_not_exist_is_a_failed_start_with_its_name(rig: Rig) -> None:
    job = launch(rig, Behaviour(no_such_command=True))
    rig.executor.start(job)
    end = end_of(rig, job)
    assert end.start_failed
    assert "/nowhere" in end.text


def test_an_end_is_repeated_until_it_is_forgotten(rig: Rig) -> None:
    job = launch(rig, ENDS)
    rig.executor.start(job)
    assert end_of(rig, job) == end_of(rig, job)
    rig.executor.forget(job.attempt.attempt_id)
    assert rig.executor.observe() == ()
    rig.executor.forget(job.attempt.attempt_id)


def test_what_is_forgotten_is_not_started_again_and_its_log_stays(rig: Rig) -> None:
    job = launch(rig, ENDS)
    rig.executor.start(job)
    end_of(rig, job)
    rig.executor.forget(job.attempt.attempt_id)
    rig.executor.start(job)
    rig.wait(100)
    assert rig.starts(job) == 1
    assert lines(rig, job) == ["ready"]


# --- stopping ----------------------------------------------------------------------------------


def test_a_notice_stops_nothing_and_can_be_taken_back(rig: Rig) -> None:
    job = launch(rig, RUNS)
    rig.executor.start(job)
    runs(rig, job)
    for _ in range(2):
        rig.executor.announce(stopping(rig, job))
    rig.wait(50)
    for _ in range(2):
        rig.executor.spare(job.attempt)
    rig.wait(50)
    assert seen(rig, job, AttemptEnded) == []
    rig.executor.signal(stopping(rig, job), now_ms=rig.now())
    assert end_of(rig, job).exit_code == 143


def test_a_signalled_attempt_ends_by_itself_within_its_grace(rig: Rig) -> None:
    job = launch(rig, RUNS, workers=2)
    rig.executor.start(job)
    runs(rig, job)
    rig.executor.announce(stopping(rig, job))
    for _ in range(3):
        rig.executor.signal(stopping(rig, job), now_ms=rig.now())
    end = end_of(rig, job)
    assert (end.exit_code, end.killed) == (143, False)


def test_a_gang_of_which_one_leaves_content_was_stopped_and_has_not_finished(rig: Rig) -> None:
    job = launch(rig, Behaviour(first_leaves_content=True), workers=2)
    rig.executor.start(job)
    runs(rig, job)
    rig.executor.signal(stopping(rig, job), now_ms=rig.now())
    assert end_of(rig, job).exit_code == 143


# --- what an exit after a signal means ---------------------------------------------------------


def what_it_means(rig: Rig, job: Launch, **more: str) -> Meaning:
    end = end_of(rig, job)
    return meaning(
        Exit(
            exit_code=end.exit_code,
            announced=True,
            told=end.told or end.killed,
            finished=end.finished,
            **more,
        )
    )


def test_one_that_leaves_with_0_at_the_signal_has_not_finished(rig: Rig) -> None:
    job = launch(rig, Behaviour(leaves_content=True), workers=2)
    rig.executor.start(job)
    runs(rig, job)
    rig.executor.signal(stopping(rig, job), now_ms=rig.now())
    assert what_it_means(rig, job) is Meaning.STOPPED


def test_one_that_ended_before_the_signal_has_finished(rig: Rig) -> None:
    job = launch(rig, ENDS)
    rig.executor.start(job)
    rig.executor.announce(stopping(rig, job))
    end_of(rig, job)
    rig.executor.signal(stopping(rig, job), now_ms=rig.now())
    assert what_it_means(rig, job) is Meaning.SUCCEEDED


@pytest.mark.parametrize("leaves", [True, False], ids=["with 0", "with 143"])
def test_one_that_said_that_it_is_done_has_finished_also_after_the_signal(
    rig: Rig, leaves: bool
) -> None:
    job = launch(rig, Behaviour(leaves_content=leaves, says_finished=True))
    rig.executor.start(job)
    runs(rig, job)
    rig.executor.signal(stopping(rig, job), now_ms=rig.now())
    assert what_it_means(rig, job) is Meaning.SUCCEEDED


def test_an_error_of_its_own_within_the_notice_is_its_own(rig: Rig) -> None:
    job = launch(rig, Behaviour(exit_code=3))
    rig.executor.start(job)
    rig.executor.announce(stopping(rig, job))
    assert what_it_means(rig, job) is Meaning.FAILED


def test_one_that_was_told_by_should_stop_and_leaves_with_0_has_not_finished(rig: Rig) -> None:
    job = launch(rig, Behaviour(says_told=True, exit_code=0))
    rig.executor.start(job)
    rig.executor.announce(stopping(rig, job))
    assert what_it_means(rig, job) is Meaning.STOPPED


def test_a_spec_may_say_that_0_after_the_signal_is_success(rig: Rig) -> None:
    job = launch(rig, Behaviour(leaves_content=True), exit_after_signal="success")
    rig.executor.start(job)
    runs(rig, job)
    rig.executor.signal(stopping(rig, job), now_ms=rig.now())
    assert what_it_means(rig, job, after_signal="success") is Meaning.SUCCEEDED


def test_what_was_told_is_known_to_a_scheduler_that_was_away(rig: Rig) -> None:
    job = launch(rig, Behaviour(leaves_content=True))
    rig.executor.start(job)
    runs(rig, job)
    stop = stopping(rig, job)
    rig.executor.signal(stop, now_ms=rig.now())
    rig.restart()
    rig.executor.adopt([stop])
    assert what_it_means(rig, job) is Meaning.STOPPED
    rig.restart()
    rig.executor.adopt([stop])
    assert what_it_means(rig, job) is Meaning.STOPPED


def test_a_notice_with_a_signal_reaches_every_worker_once(rig: Rig) -> None:
    job = launch(rig, Behaviour(leaves_content=True), workers=2)
    rig.executor.start(job)
    runs(rig, job)
    stop = stopping(rig, job)
    assert stop.stop is not None
    with_signal = replace(stop, stop=replace(stop.stop, notice_signal="SIGUSR1"))
    for _ in range(2):
        rig.executor.announce(with_signal)
    assert what_it_means(rig, job) is Meaning.STOPPED


def test_one_that_ignores_the_signal_is_killed_at_its_time(rig: Rig) -> None:
    job = launch(rig, Behaviour(ignores_term=True))
    rig.executor.start(job)
    runs(rig, job)
    kill_ms = rig.now() + 400
    rig.executor.signal(stopping(rig, job, kill_ms=kill_ms), now_ms=rig.now())
    end = end_of(rig, job)
    assert rig.now() >= kill_ms
    assert (end.exit_code, end.killed) == (-9, True)


def test_the_earlier_of_two_kill_times_counts(rig: Rig) -> None:
    job = launch(rig, Behaviour(ignores_term=True))
    rig.executor.start(job)
    runs(rig, job)
    rig.executor.signal(stopping(rig, job), now_ms=rig.now())
    rig.wait(300)
    rig.executor.signal(stopping(rig, job, kill_ms=rig.now() + 50), now_ms=rig.now())
    rig.executor.signal(stopping(rig, job), now_ms=rig.now())
    assert end_of(rig, job).killed


def test_a_stop_before_the_start_ends_it_and_prevents_the_start(rig: Rig) -> None:
    job = launch(rig, RUNS)
    rig.executor.signal(stopping(rig, job), now_ms=rig.now())
    end = end_of(rig, job)
    assert end.exit_code != 0
    rig.executor.start(job)
    rig.wait(300)
    assert rig.starts(job) == 0
    assert seen(rig, job, AttemptStarted) == []


def test_a_stop_right_after_the_start_ends_it_once(rig: Rig) -> None:
    job = launch(rig, RUNS)
    rig.executor.start(job)
    rig.executor.signal(stopping(rig, job, kill_ms=rig.now() + 500), now_ms=rig.now())
    assert end_of(rig, job).exit_code != 0
    rig.wait(300)
    assert rig.starts(job) <= 1


# --- after a restart ---------------------------------------------------------------------------


def test_what_runs_is_adopted_and_can_be_stopped(rig: Rig) -> None:
    job = launch(rig, RUNS)
    rig.executor.start(job)
    runs(rig, job)
    rig.restart()
    mine = job.attempt.attempt_id
    (found,) = (one for one in rig.executor.since(Millis(0)) if one.attempt_id == mine)
    assert (found.job_id, found.running, found.succeeded) == ("w-1", True, False)
    assert running(rig.executor.adopt([job.attempt])) == {mine: True}
    rig.executor.start(job)
    assert seen(rig, job, AttemptStarted)
    assert seen(rig, job, AttemptEnded) == []
    rig.executor.signal(stopping(rig, job), now_ms=rig.now())
    assert end_of(rig, job).exit_code == 143
    assert rig.starts(job) == 1


def test_what_ended_meanwhile_is_reported_with_its_status(rig: Rig) -> None:
    job = launch(rig, Behaviour(exit_code=3))
    rig.executor.start(job)
    end_of(rig, job)
    rig.restart()
    assert running(rig.executor.adopt([job.attempt])) == {job.attempt.attempt_id: False}
    assert end_of(rig, job).exit_code == 3


def test_a_scheduler_that_dies_while_starting_starts_no_second_copy(rig: Rig) -> None:
    job = launch(rig, RUNS)
    rig.executor.start(job)
    rig.restart()
    rig.executor.adopt([job.attempt])
    rig.executor.start(job)
    runs(rig, job)
    rig.wait(300)
    assert rig.starts(job) == 1


def test_what_was_never_started_leaves_no_trace(rig: Rig) -> None:
    job = launch(rig, RUNS)
    assert rig.executor.adopt([job.attempt]) == ()

    def begun() -> bool:
        # As the loop does, each time that it is woken.
        rig.executor.start(job)
        return bool(seen(rig, job, AttemptStarted))

    until(rig, begun)
    runs(rig, job)
    assert rig.starts(job) == 1


def test_a_start_that_is_repeated_prepares_nothing(rig: Rig) -> None:
    asked: list[AttemptId] = []

    def token_of(attempt_id: AttemptId) -> str:
        asked.append(attempt_id)
        return "gca-x"

    job = replace(launch(rig, RUNS), token_of=token_of)
    rig.executor.start(job)
    runs(rig, job)
    before = len(asked)
    rig.executor.start(job)
    assert len(asked) == before
    assert rig.starts(job) == 1


def test_what_nobody_knows_is_ended(rig: Rig) -> None:
    job, stranger = launch(rig, RUNS), launch(rig, Behaviour(ignores_term=True), number=2)
    for one in (job, stranger):
        rig.executor.start(one)
        runs(rig, one)
    rig.restart()
    assert running(rig.executor.adopt([job.attempt])) == {job.attempt.attempt_id: True}
    assert seen(rig, stranger, AttemptEnded) == []

    def only_mine() -> bool:
        rig.restart()
        found = running(rig.executor.adopt([job.attempt, stranger.attempt]))
        return not found.get(stranger.attempt.attempt_id)

    until(rig, only_mine)
    assert seen(rig, job, AttemptEnded) == []


def test_the_kill_time_holds_though_the_scheduler_is_dead(rig: Rig) -> None:
    job = launch(rig, Behaviour(ignores_term=True))
    rig.executor.start(job)
    runs(rig, job)
    stop = stopping(rig, job, kill_ms=rig.now() + 200)
    rig.executor.signal(stop, now_ms=rig.now())
    rig.restart()
    rig.executor.adopt([stop])
    assert end_of(rig, job).killed


# --- logs --------------------------------------------------------------------------------------


def test_a_log_is_read_in_whole_lines_by_byte_offsets(rig: Rig) -> None:
    printed = ("one", "zwei ½", "", "four")
    job = launch(rig, Behaviour(lines=printed, exit_code=0))
    rig.executor.start(job)
    end_of(rig, job)
    read: list[str] = []
    offset = 0
    for _ in range(10):
        chunk = rig.executor.log(job.attempt, rank=0, offset=offset, limit_bytes=10)
        read += chunk.lines
        offset = chunk.next_offset
        if chunk.end:
            break
    assert tuple(read) == printed
    assert offset == len("\n".join((*printed, "")).encode())
    again = rig.executor.log(job.attempt, rank=0, offset=offset, limit_bytes=10)
    assert (again.lines, again.next_offset, again.end) == ((), offset, True)


def test_a_log_has_no_end_while_its_worker_runs(rig: Rig) -> None:
    job = launch(rig, RUNS)
    rig.executor.start(job)
    runs(rig, job)
    assert not rig.executor.log(job.attempt, rank=0, offset=0, limit_bytes=100).end


def test_a_log_that_does_not_exist_is_empty(rig: Rig) -> None:
    job = launch(rig, RUNS)
    for rank in (0, 7):
        assert rig.executor.log(job.attempt, rank=rank, offset=0, limit_bytes=100).lines == ()
