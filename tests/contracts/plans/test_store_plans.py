"""Plans that were offered are there for who submits one, and what became of each for as long as history."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from judged_runs import HOUR, a_plan, a_run

from gpucommons.scheduler.core.model.types import Millis, WorkloadId
from gpucommons.scheduler.errors import LeaderLost
from gpucommons.scheduler.store.base import Store
from gpucommons.scheduler.store.codec import decode, encode
from gpucommons.scheduler.store.opening import open_store
from gpucommons.scheduler.store.plans.base import JudgedRun


def test_an_offer_is_found_by_its_number_after_a_restart(url: str, store: Store) -> None:
    store.plans.offer([])
    store.plans.offer([a_plan(), a_plan(plan_id="p2", wait_s=None, cost=None)])
    store.plans.offer([a_plan()])
    if url != "memory:":
        store.close()
        store = open_store(url)
    assert store.plans.offered("p2") == a_plan(plan_id="p2", wait_s=None, cost=None)
    assert store.plans.offered("p3") is None
    store.close()


def test_an_outcome_is_replaced_by_its_job_and_the_newest_are_read_oldest_first(
    store: Store,
) -> None:
    epoch = store.take_lead("me")
    store.plans.judge(epoch, [a_run(2), a_run(1), a_run(3)])
    store.plans.judge(epoch, [a_run(2, step_s=None, step_note="it told too few steps")])
    store.plans.judge(epoch, [])
    assert [run.ended_ms for run in store.plans.runs()] == [HOUR, 2 * HOUR, 3 * HOUR]
    assert [run.ended_ms for run in store.plans.runs(limit=2)] == [2 * HOUR, 3 * HOUR]
    assert [run.ended_ms for run in store.plans.runs(since_ms=Millis(3 * HOUR))] == [3 * HOUR]
    assert store.plans.run(a_run(2).workload_id) == a_run(
        2, step_s=None, step_note="it told too few steps"
    )
    assert store.plans.run(WorkloadId("another")) is None


def test_what_an_older_release_kept_has_no_driver() -> None:
    kept = json.loads(encode(a_run(1, drivers=("580.95.05",))))
    del kept["d"]["actual"]["drivers"]
    assert decode(JudgedRun, json.dumps(kept)).actual.drivers == ()


def test_old_offers_and_old_outcomes_go_each_by_its_own_age(store: Store) -> None:
    epoch = store.take_lead("me")
    store.plans.offer([a_plan(), a_plan(plan_id="p2", made_ms=10)])
    store.plans.judge(epoch, [a_run(1), a_run(2)])
    dropped = store.plans.drop(
        epoch, offered_before_ms=Millis(10), ended_before_ms=Millis(2 * HOUR)
    )
    assert dropped == 2
    assert store.plans.offered("p1") is None
    assert store.plans.offered("p2") is not None
    assert store.plans.runs() == (a_run(2),)


def test_only_the_leader_writes_outcomes(store: Store) -> None:
    old = store.take_lead("me")
    store.take_lead("another")
    with pytest.raises(LeaderLost):
        store.plans.judge(old, [replace(a_run(1))])
    with pytest.raises(LeaderLost):
        store.plans.drop(old, offered_before_ms=Millis(0), ended_before_ms=Millis(0))
