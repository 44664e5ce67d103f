"""Background work outlives whatever a single try of it meets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from launches import until

from gpucommons.scheduler.core.model.types import AttemptId
from gpucommons.scheduler.errors import Unavailable
from gpucommons.scheduler.executors.local.watch import Watch
from gpucommons.scheduler.leadership.clock import SharedClock
from gpucommons.scheduler.leadership.election import Election, Lease, Terms
from gpucommons.scheduler.leadership.memory import MemoryLease
from gpucommons.scheduler.threads.repeating import Troubles, repeat, repeat_task


class Tries:
    """Fails as told, then works until it is enough."""

    def __init__(self, *failures: Exception, enough: Callable[[], None]) -> None:
        self.left, self.count, self.enough = list(failures), 0, enough

    def __call__(self) -> None:
        self.count += 1
        if self.left:
            raise self.left.pop(0)
        self.enough()


def test_that_the_scheduler_is_away_is_one_line_without_a_stack(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    troubles = Troubles("a look")
    troubles.note(Unavailable("It closed the connection."))
    troubles.note(Unavailable("It refused the connection."))
    troubles.over()
    assert caplog.messages == [
        "a look failed; it is tried again: It closed the connection.",
        "a look works again",
    ]
    assert not any(record.exc_info for record in caplog.records)


def test_a_thread_goes_on_and_says_each_kind_of_failure_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    stopping = threading.Event()
    odd, other = ValueError("no JSON"), KeyError("stop")
    tries = Tries(odd, odd, other, enough=stopping.set)
    repeat(tries, what="the look", pause_s=0, stopping=stopping)
    assert tries.count == 4
    assert caplog.messages == [
        "the look failed; it is tried again",
        "the look failed; it is tried again",
        "the look works again",
    ]
    assert "ValueError: no JSON" in caplog.text


async def test_a_task_goes_on_until_it_is_cancelled() -> None:
    worked = asyncio.Event()
    tries = Tries(ValueError("no JSON"), enough=worked.set)

    async def step() -> None:
        tries()

    task = asyncio.create_task(repeat_task(step, what="the pass", pause=lambda: asyncio.sleep(0)))
    await asyncio.wait_for(worked.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_an_election_goes_on_after_an_answer_that_is_no_lease() -> None:
    class Odd(MemoryLease):
        looks = 0

        def get(self) -> tuple[Lease, str] | None:
            self.looks += 1
            if self.looks == 1:
                raise ValueError("Invalid value for `renew_time`")
            return super().get()

    election = Election(Odd(), "a", terms=Terms(retry_s=0.01))
    election.start()
    until(election.leads)
    election.stop()


def test_folders_are_looked_at_again_after_one_that_could_not_be_read() -> None:
    class Folder:
        looks = 0

        def supervised(self) -> bool:
            self.looks += 1
            if self.looks == 1:
                raise PermissionError("stale file handle")
            return True

        def __getattr__(self, _name: str) -> Path:
            return Path("/")

    changed, folder = threading.Event(), Folder()
    watch = Watch(lambda _attempt: cast("Any", folder), changed.set)
    watch.look_at(AttemptId("a"))
    assert changed.wait(60)
    watch.close()


def test_the_time_is_looked_at_again_after_an_odd_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpucommons.scheduler.leadership.clock.MEASURE_S", 0.01)
    answers = iter([1, "no time"])
    clock = SharedClock(lambda: next(answers, 5_000), steady=lambda: 0.0)  # type: ignore[arg-type, return-value] # odd
    clock.start()
    until(lambda: clock() == 5_000)
    clock.stop()
