"""Amounts rule out only what a search for victims would not have found either."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from gpucommons.scheduler.core.eviction import feasibility
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.passes import over_quota
from gpucommons.scheduler.simulation.conditions import Conditions
from gpucommons.scheduler.simulation.trace import TraceJob
from gpucommons.scheduler.simulation.trace_cluster import POOL, Setting, simulation_of

HALF_LIFE_MS = 60_000


def _a_busy_week(seed: int) -> Setting:
    chosen = random.Random(seed)  # noqa: S311 - a history that repeats, no secret
    jobs = [
        TraceJob(
            name=f"job-{number}",
            team=chosen.choice(["nlp", "speech", "vision"]),
            user="ann",
            gpus=chosen.choice([1, 1, 2, 3, 4, 8, 12]),
            submit_ms=chosen.randrange(600_000),
            run_ms=chosen.randrange(1_000, 200_000),
        )
        for number in range(80)
    ]
    jobs.sort(key=lambda one: one.submit_ms)
    return Setting(nodes=4, quotas={"nlp": 8, "speech": 8, "vision": 8}, jobs=tuple(jobs), shrunk=0)


@pytest.mark.parametrize("seed", range(2))
def test_what_amounts_rule_out_no_search_finds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[bool] = []
    answers: Counter[bool] = Counter()

    def note(*asked: Any) -> bool:
        said.append(could_fit(*asked))
        return True

    def searched_anyway(*asked: Any) -> Any:
        said.clear()
        plan = for_share(*asked)
        answers.update(said)
        assert plan is None or all(said)
        return plan

    could_fit, for_share = feasibility.could_fit, over_quota.for_share
    monkeypatch.setattr(feasibility, "could_fit", note)
    monkeypatch.setattr(over_quota, "for_share", searched_anyway)
    pool = replace(
        Pool(name=POOL, executor="simulation"), half_life_ms=HALF_LIFE_MS, min_run_ms=5_000
    )
    simulation_of(_a_busy_week(seed), Conditions(leave_ms=500), pool).run()
    assert answers[True]
    assert answers[False]
