"""What a sampler learns from: the highest rung that enough trials have come to."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from samples.stored_rows import SWEEP

from gpucommons.scheduler.sweeps.sampling import Sampler
from gpucommons.scheduler.sweeps.sweep import Trial, TrialState


def trial(
    number: int, learner: str, *at_rungs: float, state: TrialState = TrialState.LIVE
) -> Trial:
    values = {"learner": learner, "rate": number / 100}
    return Trial(number=number, values=values, state=state, at_rungs=at_rungs)


def learned(*, at_second: int) -> Counter[str]:
    """Fast ones lead at the first rung, slow ones at the second, to which so many of each have come."""
    trials = []
    for number in range(1, 25):
        learner = "fast" if number % 2 else "slow"
        first, second = (0.8, 0.82) if learner == "fast" else (0.3, 0.9)
        came = (first, second) if number <= 2 * at_second else (first,)
        trials.append(trial(number, learner, *came))
    sampler, found = Sampler(), Counter[str]()
    for _ in range(40):
        (new,) = sampler.draw(SWEEP, trials, 1)
        found[str(new.values["learner"])] += 1
        trials.append(trial(new.number, str(new.values["learner"]), math.nan))
    return found


def test_what_learns_fast_is_drawn_until_enough_has_come_further() -> None:
    few = learned(at_second=2)
    assert few["fast"] > few["slow"]


def test_what_gets_far_is_drawn_once_enough_has_come_there() -> None:
    many = learned(at_second=6)
    assert many["slow"] > many["fast"]


@pytest.mark.parametrize("state", [TrialState.LIVE, TrialState.FAILED, TrialState.ENDED])
def test_trials_that_run_or_stood_below_may_come_to_the_rung_later(state: TrialState) -> None:
    far = [trial(number, "slow", 0.3, 0.9) for number in range(1, 7)]
    sampler = Sampler()
    runs, stands = trial(7, "fast", state=state), trial(8, "fast", 0.8, state=state)
    for trials in (
        [*far[:2], runs, stands],
        [*far, runs, stands],  # from here on, the second rung counts
        [*far, trial(7, "fast", 0.8, state=state), trial(8, "fast", 0.8, 0.85, state=state)],
        [*far, trial(7, "fast", 0.8, 0.7, state=state), trial(8, "fast", 0.8, 0.85, state=state)],
    ):
        (new,) = sampler.draw(SWEEP, trials, 1)
        assert new.number == len(trials) + 1
