"""Ranges on a logarithmic scale are drawn evenly in the logarithm, from the first trial on."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from samples.stored_rows import SWEEP

from gpucommons.scheduler.parents import ParentId
from gpucommons.scheduler.sweeps.sampling import Sampler
from gpucommons.scheduler.sweeps.sweep import Parameter, Trial

RATE = Parameter(name="rate", low=1e-4, high=1e-2, log=True)
SWEEPS = 400


@pytest.mark.parametrize("sampler", ["tpe", "random"])
@pytest.mark.parametrize("is_back", [False, True], ids=["at once", "after a restart"])
def test_each_of_the_first_trials_is_even_in_the_logarithm(sampler: str, is_back: bool) -> None:
    drawn: list[list[float]] = [[], [], []]
    for number in range(SWEEPS):
        sweep = replace(
            SWEEP, sweep_id=ParentId(f"s-{number}"), sampler=sampler, space=(RATE,), halving=None
        )
        trials: list[Trial] = []
        source = Sampler()
        for place in drawn:
            trials += source.draw(sweep, trials, 1)
            # Where it is from the bottom of the range (0) to its top (1).
            place.append(math.log(float(trials[-1].values["rate"]) / RATE.low) / math.log(100))
            source = Sampler() if is_back else source
    for place in drawn:
        assert _distance(place) < 1.95 / math.sqrt(SWEEPS)  # 1 of 1000 of even ones is beyond it
    pairs = zip(drawn[0], drawn[2], strict=True)
    both_low = sum(first < 0.5 and third < 0.5 for first, third in pairs)
    assert abs(both_low / SWEEPS - 0.25) < 0.07  # the third does not follow the first


def _distance(shares: list[float]) -> float:
    """The largest between these and even ones (Kolmogorov and Smirnov)."""
    count = len(shares)
    return max(
        max((index + 1) / count - one, one - index / count)
        for index, one in enumerate(sorted(shares))
    )
