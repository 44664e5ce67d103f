"""What the benchmarks of sweeps charge to whom, and that the page of a sweep can be drawn for its own."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from benchmarks.sweeps import page
from benchmarks.sweeps.__main__ import SAVE_S, gpu_hours
from benchmarks.sweeps.curves import SPACE, Problem
from gpucommons.scheduler.sweeps.sweep import Values

FLAT = Problem(name="flat", space=SPACE, epochs=5, curve=lambda _seed, _values: ([0.1] * 5, 360.0))


@dataclass
class _EndsAtOnce:
    """Ten trials, each stopped after its first epoch."""

    keeps: bool
    begun: list[int] = field(default_factory=list)

    def next(self) -> int | None:
        if len(self.begun) == 10:
            return None
        self.begun.append(len(self.begun))
        return self.begun[-1]

    def told(self, number: int, epoch: int, value: float) -> bool:
        return False

    def values(self, number: int) -> Values:
        return {}


@pytest.mark.parametrize(("keeps", "saves"), [(True, 10), (False, 0)])
def test_only_trials_that_may_go_on_are_charged_their_save(keeps: bool, saves: int) -> None:
    used, if_saved = gpu_hours(1, FLAT, _EndsAtOnce(keeps), wanted=0.9, steady=True)
    assert used == pytest.approx(1.0 + saves * SAVE_S / 3600)
    assert if_saved == pytest.approx(1.0 + 10 * SAVE_S / 3600)


@pytest.mark.parametrize(("what", "count"), [(page.SWEEP, 1000), (page.MAP, 200)])
def test_the_page_has_each_trial_to_draw(what: str, count: int) -> None:
    assert len(page._answer(what)["trials"]) == count
