"""A past that is played again: everything that ran comes to run, also what ran after something."""

from __future__ import annotations

from dataclasses import replace

from builders import T0, World, a_job, a_node, a_pool, a_team

from gpucommons.scheduler.core.model.resources import Quota
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import (
    Millis,
    PoolName,
    Spec,
    TeamName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.simulation.engine import Simulation
from gpucommons.scheduler.simulation.figures import outcome_of
from gpucommons.scheduler.simulation.history import Played, Quotas, play, stage_of

MINUTE = 60_000
HOUR = 60 * MINUTE
NLP, VISION, POOL = TeamName("nlp"), TeamName("vision"), PoolName("train")


class RealPast:
    """One GPU, lent by what nlp is guaranteed, and what was really submitted there."""

    def __init__(self) -> None:
        teams = [a_team("vision"), a_team("nlp", guaranteed_milli_gpu=1000)]
        self.cluster: Cluster = World(
            a_node(gpus=1), teams=teams, pools=[a_pool(notice_ms=0)]
        ).cluster
        self._simulation = Simulation(self.cluster, now_ms=Millis(T0))
        self._found: dict[WorkloadId, Workload] = {}

    def submit(self, after_ms: int, spec: Spec, run_ms: int) -> WorkloadId:
        return self._simulation.submit(T0 + after_ms, spec, run_ms)

    def again(self, from_ms: int = 0, quotas: Quotas | None = None) -> Played:
        while (due := self._simulation.next_ms()) is not None:
            changed = self._simulation.step(due).changes.workloads
            self._found.update({one.workload_id: one for one in changed})
        span = {"from_ms": Millis(T0 + from_ms), "until_ms": Millis(T0 + 24 * HOUR)}
        return play(stage_of(self.cluster, self._found.values(), **span), quotas)


def started_after(played: Played, one: WorkloadId) -> int | None:
    started_ms = played.record.stories[one].started_ms
    return None if started_ms is None else started_ms - T0


def test_a_job_whose_turn_came_before_the_span_waits_for_nothing_in_it() -> None:
    past = RealPast()
    first = past.submit(0, a_job("a-1", team=NLP), 2 * HOUR)
    second = past.submit(HOUR, a_job("b-1", team=NLP, after=(first,)), HOUR)
    played = past.again(from_ms=2 * HOUR + 10 * MINUTE)
    assert first not in played.record.stories
    assert started_after(played, second) == 2 * HOUR + 10 * MINUTE


def test_a_job_follows_another_that_other_quotas_let_end_before_its_submit() -> None:
    past = RealPast()
    past.submit(0, a_job("x-1", team=NLP), 2 * HOUR)
    first = past.submit(1, a_job("a-1"), 30 * MINUTE)
    second = past.submit(HOUR, a_job("b-1", after=(first,)), HOUR)
    assert started_after(past.again(), second) == 2 * HOUR + 30 * MINUTE
    quotas = {
        (VISION, POOL): Quota(guaranteed_milli_gpu=1000),
        (NLP, POOL): Quota(guaranteed_milli_gpu=0),
    }
    other = past.again(quotas=quotas)
    assert (started_after(other, first) or 0) < MINUTE
    assert HOUR <= (started_after(other, second) or 0) < HOUR + MINUTE
    assert other.outcome().total.jobs == 3


def test_of_two_that_were_there_at_the_beginning_the_second_waits_for_the_first() -> None:
    past = RealPast()
    first = past.submit(0, a_job("a-1", 500, team=NLP), 2 * HOUR)
    second = past.submit(0, a_job("b-1", 500, team=NLP, after=(first,)), HOUR)
    assert started_after(past.again(from_ms=HOUR), second) == 2 * HOUR


def test_a_refusal_is_told_of_the_job_that_was_refused() -> None:
    past = RealPast()
    fits = a_job("a-1", team=NLP)
    simulation = Simulation(past.cluster, now_ms=Millis(T0))
    kept = simulation.submit(T0, fits, HOUR)
    gone = simulation.submit(T0, replace(fits, name="b-1", pools=(PoolName("gone"),)), HOUR)
    record = simulation.run()
    assert record.stories[kept].refused is None
    assert "no pool gone" in (record.stories[gone].refused or "")
    outcome = outcome_of(record, from_ms=T0, until_ms=T0 + HOUR, capacity_milli_gpu=1000)
    assert (outcome.total.jobs, outcome.refused) == (1, 1)
