"""Pipelines outlive their store; owners and the leader write them without undoing each other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpucommons.scheduler.core.model.types import Millis, TeamName, UserName, WorkloadId
from gpucommons.scheduler.errors import Conflict, LeaderLost
from gpucommons.scheduler.pipelines.pipeline import (
    Input,
    Needs,
    Piped,
    Pipeline,
    PipelineId,
    Standing,
    Step,
    StepName,
    StepStanding,
    StepState,
)
from gpucommons.scheduler.principal import Sight
from gpucommons.scheduler.store.base import Store
from gpucommons.scheduler.store.opening import open_store

CLEAN, CNN = StepName("clean"), StepName("cnn")
FIRST = Pipeline(
    pipeline_id=PipelineId("p-1"),
    name="nightly-1",
    owner=UserName("ada"),
    team=TeamName("vision"),
    submitted_ms=Millis(5),
    steps=(
        Step(name=CLEAN, request="{}", snapshot="a" * 64),
        Step(
            name=CNN,
            request="{}",
            after={CLEAN: Needs.OK},
            inputs=(Input(step=CLEAN, path="x", to="y"),),
        ),
    ),
    retried={CNN: 2},
    cancelled=frozenset({CNN}),
)
SECOND = replace(FIRST, pipeline_id=PipelineId("p-2"), name="nightly-2", owner=UserName("bob"))
RUNS = Standing(
    steps={CLEAN: StepStanding(state=StepState.SUBMITTED, job=WorkloadId("w-1"), job_name="c-1")}
)


def test_pipelines_are_there_after_a_restart(url: str, store: Store) -> None:
    epoch = store.take_lead("me")
    store.pipelines.put(FIRST, next_ms=Millis(500))
    store.pipelines.put(SECOND, next_ms=Millis(400))
    assert store.pipelines.stand(epoch, Piped(pipeline=FIRST), RUNS, next_ms=Millis(900))
    if url != "memory:":
        store.close()
        store = open_store(url)
    mine, others = Piped(pipeline=FIRST, standing=RUNS), Piped(pipeline=SECOND)
    assert store.pipelines.of(UserName("ada")) == (mine,)
    assert store.pipelines.due(Millis(899)) == (others,)
    assert store.pipelines.due(Millis(900)) == (others, mine)
    everything = Sight()
    assert store.pipelines.page(everything, before=None, limit=1) == (others,)
    assert store.pipelines.page(everything, before=PipelineId("p-2"), limit=9) == (mine,)
    of_ada = Sight(teams=frozenset(), owner=UserName("ada"))
    assert store.pipelines.page(of_ada, before=None, limit=9) == (mine,)
    assert store.pipelines.needed(ended_since_ms=Millis(10)) == {"a" * 64}
    for pipeline in (FIRST, SECOND):
        ended = Standing(ended_ms=Millis(9))
        assert store.pipelines.stand(epoch, Piped(pipeline=pipeline), ended, next_ms=None)
    assert store.pipelines.needed(ended_since_ms=Millis(10)) == frozenset()
    store.pipelines.drop(FIRST.pipeline_id)
    assert store.pipelines.of(UserName("ada")) == ()
    store.close()


def test_what_an_owner_changes_while_the_leader_decides_stays(store: Store) -> None:
    epoch = store.take_lead("me")
    store.pipelines.put(FIRST, next_ms=Millis(500))
    (read,) = store.pipelines.due(Millis(500))
    changed = replace(FIRST, cancelled=frozenset())
    store.pipelines.put(changed, next_ms=Millis(2000), before=FIRST)
    assert not store.pipelines.stand(epoch, read, RUNS, next_ms=None)
    assert store.pipelines.due(Millis(2000)) == (Piped(pipeline=changed, standing=RUNS),)
    store.pipelines.drop(FIRST.pipeline_id)
    assert not store.pipelines.stand(epoch, read, RUNS, next_ms=None)
    assert store.pipelines.of(UserName("ada")) == ()


def test_a_change_of_what_was_changed_meanwhile_is_refused(store: Store) -> None:
    store.pipelines.put(FIRST, next_ms=None)
    retried = replace(FIRST, retried={CNN: 3})
    store.pipelines.put(retried, next_ms=None, before=FIRST)
    with pytest.raises(Conflict, match="nightly-1 was changed or removed meanwhile"):
        store.pipelines.put(replace(FIRST, cancelled=frozenset()), next_ms=None, before=FIRST)
    assert [one.pipeline for one in store.pipelines.of(UserName("ada"))] == [retried]


def test_a_page_may_be_of_one_name(store: Store) -> None:
    for one in (FIRST, SECOND):
        store.pipelines.put(one, next_ms=None)
    found = store.pipelines.page(Sight(), before=None, limit=9, name="nightly-2")
    assert [one.pipeline for one in found] == [SECOND]


def test_a_name_is_one_owners_once_and_only_the_leader_writes_standings(store: Store) -> None:
    epoch = store.take_lead("me")
    store.pipelines.put(FIRST, next_ms=None)
    with pytest.raises(Conflict, match="ada has a pipeline nightly-1 already"):
        store.pipelines.put(replace(FIRST, pipeline_id=PipelineId("p-3")), next_ms=None)
    store.take_lead("another")
    with pytest.raises(LeaderLost):
        store.pipelines.stand(epoch, Piped(pipeline=FIRST), RUNS, next_ms=None)
