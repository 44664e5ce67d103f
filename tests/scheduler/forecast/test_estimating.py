"""The core played forward: what the forecast says is what then happens."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

import pytest
from builders import World, a_job, a_node, a_team

from gpucommons.scheduler.core.types import (
    Kind,
    TeamName,
    UserName,
)
from gpucommons.scheduler.forecast.estimating import (
    Budget,
    Lengths,
    estimate,
)
from gpucommons.scheduler.forecast.runs import History, Likeness, Run

T = TypeVar("T")
MINUTE = 60_000
FEW = Budget(futures=3)


def played(playing: Generator[None, None, T]) -> T:
    while True:
        try:
            next(playing)
        except StopIteration as done:
            return done.value


def ended(
    minutes: float, *, family: str = "digits", count: int = 20, kind: Kind = Kind.TRAINING
) -> list[Run]:
    like = Likeness(kind=kind, team=TeamName("vision"), user=UserName("ann"), family=family)
    return [Run(like=like, ran_ms=round(minutes * MINUTE)) for _ in range(count)]


def a_machine(gpus: int = 1) -> World:
    return World(a_node(gpus=gpus), teams=[a_team(guaranteed_milli_gpu=gpus * 1000)])


def lengths(world: World, runs: list[Run]) -> Lengths:
    # Ends have a small margin: a run that lasts exactly so long is at risk until then.
    longer = [Run(like=run.like, ran_ms=10**9) for run in runs[:5]]
    return played(estimate(world.cluster, History([*runs, *longer]), FEW))


def test_a_forecast_is_exact_when_run_times_are() -> None:
    world = a_machine()
    world.run(a_job("digits-1"))
    first, second = world.submit(a_job("digits-2")), world.submit(a_job("digits-3"))
    world.wait(4 * MINUTE)
    found = played(estimate(world.cluster, History(ended(10)), FEW))
    # 6 of 10 minutes are left; then a run of 10, within a second per cycle and the coarse grid.
    assert found.waits[first] == pytest.approx([6 * MINUTE] * 3, rel=0.05)
    assert found.waits[second] == pytest.approx([16 * MINUTE] * 3, rel=0.08)
