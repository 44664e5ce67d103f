"""A setting that was run is not run again: it would take GPUs and say nothing new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gpucommons.scheduler.core.model.types import Millis, TeamName, UserName
from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.parents import ParentId, ParentKind
from gpucommons.scheduler.sweeps.sampling import Sampler
from gpucommons.scheduler.sweeps.search_space import all_tried, most_trials, space_of
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


def settings_of(trials: list[Trial]) -> list[frozenset[tuple[str, Any]]]:
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
    assert len(set(settings_of(trials))) == 16
    # What earlier releases let go on with more trials than settings goes on.
    assert len(drawn(a_sweep(sampler), 17, {"sgd": 0.9})) == 17


@st.composite
def finite_spaces(draw: st.DrawFn) -> tuple[Parameter, ...]:
    """Of every kind that can be gone through, the second one perhaps under a condition."""
    found: list[Parameter] = []
    for place in range(draw(st.integers(1, 3))):
        name, low = f"p{place}", draw(st.integers(1, 3))
        step, steps = draw(st.sampled_from([0.1, 0.25, 1.0])), draw(st.integers(1, 3))
        choices = draw(st.lists(st.sampled_from([32, 64, "adam", 0.5, True, 1]), min_size=1))
        one = draw(
            st.sampled_from(
                [
                    Parameter(name=name, choices=tuple(dict.fromkeys(choices))),
                    Parameter(name=name, low=low, high=low + steps, integer=True),
                    Parameter(name=name, low=low, high=low + steps, integer=True, log=True),
                    Parameter(name=name, low=low, high=round(low + steps * step, 2), step=step),
                ]
            )
        )
        if found and draw(st.booleans()) and found[0].choices:
            one = replace(one, when={found[0].name: found[0].choices[:1]})
        found.append(one)
    return tuple(found)


@given(
    space=finite_spaces(),
    sampler=st.sampled_from(["tpe", "random", "grid"]),
    batches=st.lists(st.integers(1, 8), min_size=1, max_size=8),
    restarts=st.lists(st.booleans(), min_size=1, max_size=3),
)
@settings(max_examples=60)
def test_each_setting_is_run_once_and_all_before_all_are_said_to_be_tried(
    space: tuple[Parameter, ...], sampler: str, batches: list[int], restarts: list[bool]
) -> None:
    """However many are drawn at once, and whether or not the scheduler dies in between."""
    most = most_trials(space, sampler)
    assume(most <= 24)
    sweep = replace(a_sweep(sampler, space), budget=Budget(trials=most))
    source, trials = Sampler(), list[Trial]()
    for batch, restart in zip(cycle(batches), cycle(restarts)):
        assert not all_tried(sweep, trials)
        new = source.draw(sweep, trials, min(batch, most - len(trials)))
        trials += [replace(one, state=TrialState.DONE, best=one.number % 3) for one in new]
        source = Sampler() if restart else source
        if len(trials) == most:
            break
    assert len(set(settings_of(trials))) == most
    assert all_tried(sweep, trials)


def test_what_is_drawn_at_once_are_different_settings() -> None:
    """The example of the docs: four settings, all drawn in two looks."""
    space = (
        Parameter(name="lr", choices=(0.1, 0.01)),
        Parameter(name="batch", choices=(32, 64)),
    )
    for number in range(20):
        sweep = replace(a_sweep("tpe", space), sweep_id=ParentId(f"s-{number}"))
        source, trials = Sampler(), list[Trial]()
        for count in (1, 3):
            new = source.draw(sweep, trials, count)
            trials += [replace(one, state=TrialState.DONE, best=0.5) for one in new]
        assert len(set(settings_of(trials))) == 4


def test_what_was_drawn_and_never_stored_is_drawn_later() -> None:
    sweep = a_sweep("tpe", (Parameter(name="seed", choices=(1, 2, 3)),))
    source = Sampler()
    source.draw(sweep, [], 3)
    assert len(set(settings_of(source.draw(sweep, [], 3)))) == 3


def test_a_grid_that_an_earlier_release_accepted_with_a_value_twice_comes_to_its_end() -> None:
    space = (Parameter(name="lr", choices=(0.1, 0.1, 0.2)), Parameter(name="batch", choices=(1, 2)))
    sweep = replace(a_sweep("grid", space), budget=Budget(trials=6))
    trials = list[Trial]()
    for count in (3, 50):
        new = Sampler().draw(sweep, trials, count)
        trials += [replace(one, state=TrialState.DONE, best=0.5) for one in new]
    assert len(trials) == sweep.count == 6
    assert len(set(settings_of(trials))) == 4


def test_a_value_that_is_named_twice_is_accepted_once() -> None:
    asked = SimpleNamespace(space={"lr": [0.1, 0.1, 0.2]})
    (lr,) = space_of(asked)
    assert lr.choices == (0.1, 0.2)


@pytest.mark.parametrize("values", [[1, True, 2], [True, 1], [False, 0.0]])
def test_a_number_and_a_truth_value_that_are_equal_are_refused_together(values: list[Any]) -> None:
    with pytest.raises(
        Misconfigured, match=r"space: deep has [01] and (true|false), which count as one"
    ):
        space_of(SimpleNamespace(space={"deep": values}))


def test_truth_values_alone_are_choices() -> None:
    (found,) = space_of(SimpleNamespace(space={"deep": [True, False, True]}))
    assert found.choices == (True, False)


def test_a_sweep_has_no_more_trials_than_there_are_settings() -> None:
    lr = Parameter(name="lr", low=1e-4, high=1, log=True)
    assert [most_trials(CHOICES, one) for one in ("tpe", "random", "grid")] == [16, 16, 16]
    assert most_trials((*CHOICES, lr), "tpe") == 10_000
