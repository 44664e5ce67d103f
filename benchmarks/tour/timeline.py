"""What happened when: one line a row of the walk-throughs, and the checks that must hold."""

from __future__ import annotations

import time
from collections.abc import Callable, Sized
from contextlib import suppress
from typing import TypeVar

from gpucommons.scheduler.client import SchedulerClient
from gpucommons.scheduler.client.call import Call
from gpucommons.scheduler.errors import Unavailable

T = TypeVar("T")
#: When something is given up: far above any figure, which says itself how long it took.
PATIENCE_S = 180


class TourFailedError(Exception):
    """A row of the walk-throughs does not hold."""


class Timeline:
    """Prints rows with the seconds since the start."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        #: Rows of the walk-throughs that were played, each once, as they came.
        self.played: list[str] = []

    def row(self, name: str, text: str) -> None:
        """One thing that a person would have seen."""
        if name and name not in self.played:
            self.played.append(name)
        print(f"{time.monotonic() - self._began:6.1f} s  {name:<4} {text}", flush=True)


def check(holds: bool, text: str) -> None:
    """Fail the tour with a sentence."""
    if not holds:
        raise TourFailedError(text)


def wait_for(
    what: str, ask: Callable[[], T | None], *, timeout_s: float = PATIENCE_S, every_s: float = 0.1
) -> T:
    """Ask until there is an answer: not None, not False, not something empty; a nought is one.

    What is waited for is real processes, so real time passes.
    """
    end = time.monotonic() + timeout_s
    while True:
        answer = ask()
        if answer is not None and not _says_nothing(answer):
            return answer
        if time.monotonic() > end:
            message = f"{what}: not within {timeout_s:g} s"
            raise TourFailedError(message)
        time.sleep(every_s)


def answer_of(scheduler: SchedulerClient, call: Call[T]) -> T:
    """One call; where the scheduler is not to be reached for a moment, once more."""

    def answer() -> T | None:
        with suppress(Unavailable):
            return scheduler.send(call)
        return None

    return wait_for("the scheduler's answer", answer, timeout_s=120)


def _says_nothing(answer: object) -> bool:
    return answer is False or (isinstance(answer, Sized) and len(answer) == 0)
