"""Which parameters matter is told where it can be, and why not where it cannot."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpucommons.scheduler.core.model.types import (
    HoldClass,
    Kind,
    Millis,
    PoolName,
    TeamName,
    UserName,
    WorkloadId,
)
from gpucommons.scheduler.parents import ParentId, ParentKind
from gpucommons.scheduler.service.views.sweeps import gpus_in_use, known_until
from gpucommons.scheduler.store.base import LedgerRow
from gpucommons.scheduler.sweeps.importance import FEWEST, importance_of
from gpucommons.scheduler.sweeps.sweep import Budget, Parameter, Sweep, Trial

BOTH = Sweep(
    sweep_id=ParentId("s"),
    kind=ParentKind.SWEEP,
    name="digits-1",
    owner=UserName("ann"),
    team=TeamName("vision"),
    made_ms=Millis(0),
    budget=Budget(trials=40),
    request="{}",
    space=(Parameter(name="lr", low=0, high=1), Parameter(name="seed", low=0, high=1)),
    metric="loss",
)
ROW = LedgerRow(
    workload_id=WorkloadId("w"),
    minute_ms=Millis(0),
    team=TeamName("vision"),
    pool=PoolName("train"),
    owner=UserName("ann"),
    kind=Kind.RETRAIN,
    hold_class=HoldClass.OVER_QUOTA,
    held_milli_gpu_ms=2000 * 60_000,
)


def trials(count: int) -> list[Trial]:
    """What comes out follows lr alone."""
    return [
        Trial(number=n, values={"lr": n / count, "seed": n * 7 % count / count}, best=n / count)
        for n in range(1, count + 1)
    ]


def test_what_decides_explains_most(monkeypatch: pytest.MonkeyPatch) -> None:
    found, why_not = importance_of(BOTH, trials(40))
    assert (why_not, found["lr"] > found["seed"], round(sum(found.values()), 6)) == ("", True, 1)
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert importance_of(BOTH, trials(40))[1].startswith("Not known: Optuna works it out")


def test_why_it_is_not_told_is_true_also_of_a_sweep_that_is_over_or_small() -> None:
    assert importance_of(BOTH, trials(FEWEST - 1)) == (
        {},
        "Which parameters matter most is told once 8 trials have told loss; 7 have so far.",
    )
    small = replace(BOTH, budget=Budget(trials=6))
    assert importance_of(small, trials(2))[1] == (
        "Which parameters matter most is not told: that takes 8 trials that told loss; this"
        " sweep has at most 6."
    )
    for sweep in (BOTH, small):
        assert importance_of(sweep, trials(6), is_over=True)[1] == (
            "Which parameters matter most is not known: that takes 8 trials that told loss; 6 did."
        )


def test_a_scheduler_that_tells_it_holds_no_package_that_only_others_need() -> None:
    """Optuna's other evaluators load scikit-learn where it is installed: seconds and 90 MiB."""
    told = "from test_importance import *; importance_of(BOTH, trials(40))"
    left = "print([n for n in ('sklearn', 'scipy') if n in sys.modules]); import sklearn"
    done = subprocess.run(
        [sys.executable, "-c", f"{told}; {left}"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr[-2000:]


def test_gpus_over_time_are_few_points_and_go_down_to_nothing() -> None:
    def row(minute: int) -> LedgerRow:
        return replace(ROW, minute_ms=Millis(minute * 60_000))

    found = gpus_in_use([row(1), row(2), row(5)], 0, 20 * 60_000)
    assert [(one.at_ms // 60_000, one.milli_gpu) for one in found] == [
        (1, 2000),
        (2, 2000),
        (3, 0),
        (4, 0),
        (5, 2000),
        (6, 0),
    ]
    assert gpus_in_use([], 0, 60_000) == []
    day = [row(minute) for minute in range(24 * 60)]
    assert len(gpus_in_use(day, 0, 24 * 3_600_000)) <= 241


def test_nothing_is_held_before_a_sweep_began() -> None:
    """Two GPUs for the last twenty seconds of its first minute."""
    row = replace(ROW, minute_ms=Millis(60_000), held_milli_gpu_ms=2000 * 20_000)
    found = gpus_in_use([row, replace(ROW, minute_ms=Millis(120_000))], 100_000, 180_000)
    assert [(one.at_ms, one.milli_gpu) for one in found] == [(100_000, 2000), (120_000, 2000)]


def test_of_the_minute_in_which_a_sweep_ends_only_its_part_counts() -> None:
    row = replace(ROW, minute_ms=Millis(60_000), held_milli_gpu_ms=2000 * 20_000)
    assert [one.milli_gpu for one in gpus_in_use([row], 70_000, 90_000)] == [2000]


def test_a_minute_is_drawn_once_the_ledger_has_all_of_it() -> None:
    """A trial that runs on is not in the ledger yet: what ended beside it would look like all."""
    now_ms = Millis(122_000)
    assert known_until(None, now_ms, holds=True) == 60_000
    # What is over while its jobs give their GPUs back.
    assert known_until(Millis(75_000), now_ms, holds=True) == 60_000
    assert known_until(Millis(45_000), now_ms, holds=True) == 45_000
    # Nothing holds a GPU: all that was held is written.
    assert known_until(None, now_ms, holds=False) == 120_000
    assert known_until(Millis(75_000), now_ms, holds=False) == 75_000


@pytest.mark.parametrize("begins", [0, 7, 1003])
def test_what_was_held_all_the_time_is_no_ramp_at_either_end(begins: int) -> None:
    """Twenty hours are drawn in spans of six minutes: of the first and the last only a part is known."""
    rows = [replace(ROW, minute_ms=Millis((begins + m) * 60_000)) for m in range(1205)]
    found = gpus_in_use(rows, begins * 60_000, (begins + 1205) * 60_000 + 30_000)
    assert {one.milli_gpu for one in found} == {2000}
    assert found[0].at_ms == begins * 60_000
