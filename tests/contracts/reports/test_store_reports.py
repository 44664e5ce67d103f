"""Reports are sums over the ledger and over jobs that are over: every store adds up the same."""

from __future__ import annotations

from dataclasses import replace

from stored_rows import NOW, VISION, job, ledger_row

from gpucommons.scheduler.core.model.state import Changes
from gpucommons.scheduler.core.model.types import (
    HoldClass,
    Kind,
    Millis,
    PoolName,
    State,
    TeamName,
    UserName,
    WorkloadId,
)
from gpucommons.scheduler.store.base import Store
from gpucommons.scheduler.store.reports.base import FinishedJobs, Steps, UsageSum


def test_usage_is_added_up_by_team_owner_and_pool(store: Store) -> None:
    epoch = store.take_lead("me")
    bob = {"workload_id": WorkloadId("w-0002"), "owner": UserName("bob")}
    nlp = {"workload_id": WorkloadId("w-0003"), "team": TeamName("nlp")}
    rows = [
        ledger_row(1, held_milli_gpu_ms=7, compute_percent_mean=50, lost_milli_gpu_ms=2),
        ledger_row(
            2, held_milli_gpu_ms=7, surplus_milli_gpu_ms=4, compute_percent_mean=50, idle=True
        ),
        ledger_row(
            3,
            held_milli_gpu_ms=5,
            hold_class=HoldClass.OVER_QUOTA,
            lost_milli_gpu_ms=3,
            pool=PoolName("build"),
        ),
        ledger_row(2, held_milli_gpu_ms=2**40, **bob),
        ledger_row(3, held_milli_gpu_ms=0, parked_milli_gpu_ms=2**40, **bob),
        ledger_row(4, held_milli_gpu_ms=0, parked_milli_gpu_ms=1, **bob),
        ledger_row(9, held_milli_gpu_ms=9, parked_milli_gpu_ms=9, **bob),
        ledger_row(2, held_milli_gpu_ms=11, compute_percent_mean=0, **nlp),
    ]
    store.add_ledger(epoch, rows)
    span = Steps(from_ms=Millis(60_000), to_ms=Millis(9 * 60_000))
    train = {"pool": PoolName("train")}
    elsewhere = UsageSum(
        from_ms=Millis(60_000),
        team=VISION,
        owner=UserName("ada"),
        pool=PoolName("build"),
        held=5,
        used=None,
        idle=0,
        borrowed=5,
        lost=3,
    )
    ada, of_bob, other = (
        UsageSum(
            from_ms=Millis(60_000),
            team=VISION,
            owner=UserName("ada"),
            **train,
            held=14,
            used=6,
            idle=7,
            borrowed=4,
            lost=2,
        ),
        UsageSum(
            from_ms=Millis(60_000),
            team=VISION,
            owner=UserName("bob"),
            **train,
            held=2**40,
            used=None,
            idle=0,
            borrowed=0,
            lost=0,
            parked=2**40 + 1,
        ),
        UsageSum(
            from_ms=Millis(60_000),
            team=TeamName("nlp"),
            owner=UserName("ada"),
            **train,
            held=11,
            used=0,
            idle=0,
            borrowed=0,
            lost=0,
        ),
    )
    assert store.reports.usage(span) == (other, elsewhere, ada, of_bob)
    assert store.reports.usage(span, teams=frozenset({VISION})) == (elsewhere, ada, of_bob)
    assert store.reports.usage(span, teams=frozenset({TeamName("nlp"), TeamName("x")})) == (other,)
    assert store.reports.usage(span, teams=frozenset()) == ()
    assert store.reports.usage(Steps(from_ms=Millis(0), to_ms=Millis(1))) == ()


def test_usage_is_told_apart_by_step_and_project(store: Store) -> None:
    epoch = store.take_lead("me")
    rows = [
        ledger_row(
            minute, held_milli_gpu_ms=10, project=project, workload_id=WorkloadId(f"w-{project}")
        )
        for minute, project in ((1, ""), (2, "thesis"), (4, "thesis"), (5, "thesis"), (9, "thesis"))
    ]
    store.add_ledger(epoch, rows)
    steps = Steps(from_ms=Millis(60_000), to_ms=Millis(9 * 60_000), step_ms=3 * 60_000)
    assert [(one.from_ms // 60_000, one.project, one.held) for one in store.reports.usage(steps)] == [
        (1, "", 10), (1, "thesis", 10), (4, "thesis", 20),
    ]  # fmt: skip
    assert store.ledger(from_ms=Millis(0), to_ms=Millis(600_000)) == tuple(rows)


def test_jobs_that_succeeded_are_counted_by_step_and_team(store: Store) -> None:
    epoch = store.take_lead("me")
    ended = [
        replace(job(number, state, kind=kind), ended_ms=Millis(at_ms))
        for number, (state, kind, at_ms) in enumerate(
            (
                (State.SUCCEEDED, Kind.TRAINING, 1_000),
                (State.SUCCEEDED, Kind.RETRAIN, 1_999),
                (State.FAILED, Kind.TRAINING, 1_500),
                (State.SUCCEEDED, Kind.NOTEBOOK, 1_500),
                (State.SUCCEEDED, Kind.TRAINING, 2_000),
                (State.SUCCEEDED, Kind.TRAINING, 3_500),
            ),
            1,
        )
    ]
    store.commit(epoch, Changes(now_ms=NOW, workloads=tuple(ended)))
    steps = Steps(from_ms=Millis(1_000), to_ms=Millis(3_500), step_ms=1_000)
    assert store.reports.finished(steps) == (
        FinishedJobs(from_ms=Millis(1_000), team=VISION, count=2),
        FinishedJobs(from_ms=Millis(2_000), team=VISION, count=1),
    )
    assert store.reports.finished(steps, teams=frozenset({TeamName("nlp")})) == ()
    assert store.reports.finished(Steps(from_ms=Millis(0), to_ms=NOW))[0].count == 4
