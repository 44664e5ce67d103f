"""A clock that is set back must not stop what is decided by time."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest

from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.loop.monotonic_clock import OnwardClock

STORED = Millis(1_700_000_000_000)
HOUR_S = 3600


@dataclass
class Machine:
    """Its clock, which somebody sets, and one that nobody does."""

    wall_ms: int = STORED
    steady_s: float = 77.0

    def __post_init__(self) -> None:
        self.clock = OnwardClock(lambda: Millis(self.wall_ms), lambda: self.steady_s)

    def wait(self, seconds: float) -> None:
        self.wall_ms += int(seconds * 1000)
        self.steady_s += seconds


def test_a_clock_that_is_right_is_believed() -> None:
    machine = Machine()
    assert machine.clock(STORED) == STORED
    machine.wait(5)
    assert machine.clock(STORED) == STORED + 5_000
    machine.wall_ms += 10_000_000
    assert machine.clock(STORED) == STORED + 10_005_000


def test_time_goes_on_while_the_clock_is_behind_and_never_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = Machine(wall_ms=STORED - HOUR_S * 1000)
    shown = [machine.clock(STORED)]
    stored = STORED
    for minute in range(3 * 60):
        machine.wait(60)
        shown.append(machine.clock(stored))
        if minute % 7 == 0:
            stored = shown[-1]
    assert all(later > earlier for earlier, later in itertools.pairwise(shown))
    # Half an hour in the first hour, and at last the machine's own time.
    assert shown[60] == STORED + HOUR_S * 500
    assert shown[-1] == machine.wall_ms
    (said,) = caplog.messages
    assert "3600 s behind" in said
    assert "timedatectl" in said


def test_small_corrections_are_not_talked_about(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine(wall_ms=STORED - 500)
    assert machine.clock(STORED) == STORED
    machine.wait(2)
    assert machine.clock(STORED) == machine.wall_ms
    assert caplog.messages == []
