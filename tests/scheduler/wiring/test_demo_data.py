"""Sample data of the demo agrees with itself, fills every page that looks back, and lies in no store of ours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from service_world import ServiceWorld

from gpucommons.scheduler.core.model.types import Millis, TeamName
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.service.administration import usage_report
from gpucommons.scheduler.service.administration.utilisation import Asked, utilisation
from gpucommons.scheduler.service.advice import past
from gpucommons.scheduler.service.service import Sample, Service
from gpucommons.scheduler.store.memory import MemoryStore
from gpucommons.scheduler.store.quota_minutes.base import WHOLE_POOL
from gpucommons.scheduler.store.reports.base import Steps
from gpucommons.scheduler.wiring.demo_data import DAYS, sample_history

NOW = 1_795_850_000_000
HOUR_MS, DAY_MS = 3_600_000, 86_400_000


@pytest.fixture(scope="module")
def history() -> Sample:
    return sample_history(NOW)


@pytest.fixture(scope="module")
def sample(history: Sample) -> MemoryStore:
    assert isinstance(history.store, MemoryStore)
    return history.store


@pytest.fixture
def service(tmp_path: Path, history: Sample) -> Service:
    world = ServiceWorld(tmp_path)
    return replace(world.service, sample=lambda: history, now_ms=lambda: Millis(NOW + 7 * HOUR_MS))


def test_nobody_holds_more_than_there_is_and_what_is_lent_is_what_is_borrowed(
    sample: MemoryStore,
) -> None:
    steps = Steps(
        from_ms=Millis(NOW - NOW % HOUR_MS - DAYS * DAY_MS), to_ms=Millis(NOW), step_ms=HOUR_MS
    )
    held: dict[int, int] = {}
    borrowed = 0
    for one in sample.reports.usage(steps):
        held[one.from_ms] = held.get(one.from_ms, 0) + one.held
        borrowed += one.borrowed
    assert max(held.values()) <= 4000 * HOUR_MS
    rows = sample.quota_minutes.sums(from_ms=steps.from_ms, to_ms=steps.to_ms, step_ms=DAY_MS)
    lent = sum(row.lent for row in rows)
    assert lent == pytest.approx(borrowed, rel=1e-6)
    assert {row.team for row in rows} == {WHOLE_POOL, "vision", "nlp"}


def test_each_page_that_looks_back_is_full_and_says_that_it_is_sample_data(
    service: Service, tmp_path: Path
) -> None:
    admin = ServiceWorld(tmp_path / "w").admin
    report = usage_report.report(
        service, admin, from_ms=NOW - 20 * DAY_MS, to_ms=NOW, drawn=True, sample=True
    )
    assert report.is_sample
    assert report.currency == "EUR"
    # 1.20 EUR for a GPU and hour, as the sample's plans have it.
    held = sum(row.held_milli_gpu_h for row in report.rows)
    cost = sum(row.cost_micro or 0 for row in report.rows)
    assert cost == pytest.approx(held * 1200, rel=1e-4)
    lent = sum(row.lent_milli_gpu_h for row in report.lent)
    borrowed = sum(row.borrowed_milli_gpu_h for row in report.rows)
    assert borrowed == lent + report.lent_by_none_milli_gpu_h + report.lent_unknown_milli_gpu_h
    assert {row.project for row in report.rows} >= {"", "thesis", "digits", "pretrain-small"}
    assert all(day.held_milli_gpu_h and day.there_milli_gpu_h for day in report.days[:-1])
    assert min(sum(getattr(row, name) for row in report.rows) for name in (
        "idle_milli_gpu_h", "borrowed_milli_gpu_h", "lost_milli_gpu_h", "parked_milli_gpu_h",
    )) > 0  # fmt: skip
    for days in (2, 14, 90, 365):
        found = utilisation(service, admin, Asked(days=days, sample=True))
        known = [one for one in found.lines[0].points if one.allocated_milli_gpu is not None]
        assert found.is_sample
        assert len(known) >= min(len(found.lines[0].points) - 5, 13)
        assert all(
            0 <= (one.used_milli_gpu or 0) <= (one.allocated_milli_gpu or 0) for one in known
        )
        # However long after the sample's end it is asked for, all GPUs were there to its end.
        assert {one.there_milli_gpu for one in known} == {4000}
    assert len(found.marks) == 2
    said = past.calibration(service, admin, days=90, sample=True)
    assert said.is_sample
    assert {
        row.grade: row.speed.percent is not None for row in said.grades if row.runs
    } == dict.fromkeys("ABC", True)
    assert all(row.wait.percent and row.money_off_percent is not None for row in said.grades)
    assert all(75 <= (row.share.percent or 0) <= 85 for row in said.clocks if row.share.of > 20)


def test_it_is_in_no_store_of_the_scheduler_and_only_where_a_demo_has_it(
    service: Service, tmp_path: Path
) -> None:
    world = ServiceWorld(tmp_path / "w")
    usage_report.report(service, world.admin, from_ms=NOW - DAY_MS, to_ms=NOW, sample=True)
    real = usage_report.report(service, world.admin, from_ms=NOW - DAY_MS, to_ms=NOW)
    assert (real.rows, real.is_sample, real.has_sample) == ([], False, True)
    assert not service.store.ledger(from_ms=Millis(0), to_ms=Millis(NOW))
    with pytest.raises(BadRequest, match="only a demo has some"):
        usage_report.report(world.service, world.admin, from_ms=0, to_ms=1, sample=True)


def test_who_sees_one_team_sees_its_sample_data_alone(service: Service, tmp_path: Path) -> None:
    lead = ServiceWorld(tmp_path / "w").principal("ada")
    found = usage_report.report(service, lead, from_ms=NOW - DAY_MS, to_ms=NOW, sample=True)
    assert {row.team for row in found.rows} == {TeamName("vision")}
