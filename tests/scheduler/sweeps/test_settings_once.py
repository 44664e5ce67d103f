"""A setting that was run is not run again: it would take GPUs and say nothing new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gpucommons.scheduler.core.model.types import Millis, TeamName, UserName
from gpucommons.scheduler.parents import ParentId, ParentKind
from gpucommons.scheduler.sweeps.sampling import Sampler
from gpucommons.scheduler.sweeps.search_space import most_trials
from gpucommons.scheduler.sweeps.sweep import Budget, Parameter, Sweep, Trial, TrialState

CHOICES = (
    Parameter(name="batch", choices=(32, 64, 128, 256)),
    Parameter(name="optimizer", choices=("sgd", "adam")),
    Parameter(name="momentum", low=0, high=1, step=0.5, when={"optimizer": ("sgd",)}),
)


def a_sweep(sampler: str, space: tuple[Parameter, ...] = CHOICES) -> Sweep:
    return Sweep(
        sweep_id=ParentId("s-1"),
        kind=ParentKind.SWEEP,
        name="search",
        owner=UserName("ann"),
        team=TeamName("vision"),
        made_ms=Millis(0),
        budget=Budget(trials=100),
        request="{}",
        space=space,
        metric="accuracy",
        maximize=True,
        sampler=sampler,
    )


def settings(trials: list[Trial]) -> list[frozenset[tuple[str, Any]]]:
    return [frozenset(one.values.items()) for one in trials]


def drawn(sweep: Sweep, count: int, score: Mapping[str, float]) -> list[Trial]:
    """Each is told at once: what has a high score is drawn again and again by one that learns."""
    sampler, trials = Sampler(), list[Trial]()
    for _ in range(count):
        (new,) = sampler.draw(sweep, trials, 1)
        best = score.get(str(new.values.get("optimizer")), 0.0)
        trials.append(replace(new, state=TrialState.DONE, best=best))
    return trials


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_every_setting_of_a_small_space_is_run_once_before_any_twice(sampler: str) -> None:
    trials = drawn(a_sweep(sampler), 16, {"sgd": 0.9})
    assert len(set(settings(trials))) == 16
    # What earlier releases let go on with more trials than settings goes on.
    assert len(drawn(a_sweep(sampler), 17, {"sgd": 0.9})) == 17


def test_a_sweep_has_no_more_trials_than_there_are_settings() -> None:
    lr = Parameter(name="lr", low=1e-4, high=1, log=True)
    assert [most_trials(CHOICES, one) for one in ("tpe", "random", "grid")] == [16, 16, 16]
    assert most_trials((*CHOICES, lr), "tpe") == 10_000
