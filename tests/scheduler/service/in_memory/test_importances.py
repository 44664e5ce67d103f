"""Which parameters matter is worked out once for all who look, and anew when more is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpucommons.scheduler.core.model.types import Millis, TeamName, UserName
from gpucommons.scheduler.parents import ParentId, ParentKind
from gpucommons.scheduler.service.in_memory import importances
from gpucommons.scheduler.sweeps.sweep import Budget, Kept, Standing, Sweep, Trial


def a_sweep(number: int = 1) -> Kept:
    sweep = Sweep(
        sweep_id=ParentId(f"s-{number}"),
        kind=ParentKind.SWEEP,
        name=f"search-{number}",
        owner=UserName("ann"),
        team=TeamName("vision"),
        made_ms=Millis(0),
        budget=Budget(trials=9),
        request="{}",
    )
    return Kept(sweep=sweep)


def a_trial(number: int, best: float | None = None, best_ms: int = 0) -> Trial:
    return Trial(number=number, values={}, best=best, best_ms=Millis(best_ms))


@pytest.fixture
def worked_out(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []

    def importance_of(
        sweep: Sweep, trials: list[Trial], *, is_over: bool
    ) -> tuple[dict[str, float], str]:
        found.append(sweep.name)
        return {"lr": sum(one.best or 0 for one in trials)}, ""

    monkeypatch.setattr(importances, "importance_of", importance_of)
    return found


def test_nothing_is_worked_out_again_until_a_trial_tells_more(worked_out: list[str]) -> None:
    known, sweep = importances.Importances(), a_sweep()
    told = [a_trial(1, 0.5, 10), a_trial(2)]
    for _ in range(5):
        assert known.of(sweep, told) == ({"lr": 0.5}, "")
    # One that has told nothing yet changes nothing; a better one does, and a further one.
    assert known.of(sweep, [*told, a_trial(3)]) == ({"lr": 0.5}, "")
    assert worked_out == ["search-1"]
    assert known.of(sweep, [a_trial(1, 0.75, 20)]) == ({"lr": 0.75}, "")
    assert known.of(sweep, [a_trial(1, 0.75, 20), a_trial(2, 0.25, 15)]) == ({"lr": 1.0}, "")
    assert worked_out == ["search-1"] * 3


def test_the_end_of_a_sweep_and_a_larger_budget_change_what_is_said(worked_out: list[str]) -> None:
    known, kept = importances.Importances(), a_sweep()
    larger = replace(kept, sweep=replace(kept.sweep, budget=Budget(trials=20)))
    for one in (kept, larger, replace(larger, standing=Standing(ended_ms=Millis(9)))):
        known.of(one, [a_trial(1, 0.5, 10)])
    assert len(worked_out) == 3


def test_of_many_sweeps_those_that_were_asked_for_last_are_kept(
    worked_out: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importances, "_MOST", 2)
    known = importances.Importances()
    for number in (1, 2, 1, 3, 1, 2):
        known.of(a_sweep(number), [])
    assert worked_out == ["search-1", "search-2", "search-3", "search-2"]
