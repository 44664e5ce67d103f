"""Utilisation is the ledger's, step by step: what is not known is not zero, and leads see their teams alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from service_world import ServiceWorld, a_request, done
from stored_rows import ledger_row

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import Millis, PoolName, TeamName, WorkloadId
from gpucommons.scheduler.errors import BadRequest, Forbidden
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.models.reports import UseLine, Utilisation
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service.administration import over_time, settings, usage_report
from gpucommons.scheduler.service.administration.utilisation import (
    RESOLUTIONS,
    Asked,
    utilisation,
)
from gpucommons.scheduler.service.jobs import jobs

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000


def seen(world: ServiceWorld, by: Principal | None = None, **asked: object) -> Utilisation:
    return utilisation(world.service, by or world.admin, Asked(**({"days": 2} | asked)))  # type: ignore[arg-type]


def amounts(line: UseLine) -> list[tuple[int | None, int | None, int | None]]:
    return [
        (one.allocated_milli_gpu, one.used_milli_gpu, one.there_milli_gpu)
        for one in line.points
        if one.allocated_milli_gpu is not None
    ]


@pytest.fixture
def worked(world: ServiceWorld) -> ServiceWorld:
    """Two of four GPUs were held for an hour, of a team whose quota they are."""
    role = {"milli_gpu": 2000, "command": ["sleep"]}
    jobs.submit(world.service, world.principal("ann"), a_request(role=role), key=None)
    for _ in range(60):
        world.pass_time(MINUTE_MS)
    world.pass_time(90_000)
    return world


def test_points_are_means_of_what_the_ledger_holds(worked: ServiceWorld) -> None:
    found = seen(worked)
    assert [(line.of, line.name) for line in found.lines] == [
        ("all", ""), ("team", "nlp"), ("team", "vision"), ("pool", "gpu"),
    ]  # fmt: skip
    whole, nlp, vision, pool = map(amounts, found.lines)
    # The fake agents measure nothing: that is not zero.
    assert whole == pool
    assert whole[1:] == [(2000, None, 4000)] * (len(whole) - 1)
    assert len(whole) in (4, 5, 6)
    assert {held for held, _, _ in nlp} == {0}
    assert {(held, there) for held, _, there in vision[1:]} == {(2000, 2000)}
    # Before the scheduler began nothing is known.
    assert found.lines[0].points[0].allocated_milli_gpu is None
    rows = worked.store.ledger(from_ms=Millis(found.from_ms), to_ms=Millis(found.to_ms))
    held = sum(row.held_milli_gpu_ms for row in rows)
    start_ms = min(row.minute_ms for row in rows)
    assert held == pytest.approx(2000 * (found.to_ms - start_ms), rel=0.05)


def test_use_of_simulated_gpus_is_said_to_be_so_in_utilisation_and_report(
    worked: ServiceWorld,
) -> None:
    def told() -> list[list[str]]:
        now_ms = worked.now_ms
        report = usage_report.report(
            worked.service, worked.admin, from_ms=now_ms - DAY_MS, to_ms=now_ms
        )
        return [seen(worked).simulated_pools, report.simulated_pools]

    assert told() == [[], []]
    pools = {name: replace(pool, simulated=True) for name, pool in worked.cluster.pools.items()}
    worked.loop._cluster = replace(worked.cluster, pools=pools)
    assert told() == [["gpu"], ["gpu"]]
    before = usage_report.report(worked.service, worked.admin, from_ms=1, to_ms=2)
    assert before.simulated_pools == [], "nothing of it was held there"


def test_it_is_coarser_the_longer_ago(worked: ServiceWorld) -> None:
    for days, step_ms in RESOLUTIONS:
        found = seen(worked, days=days)
        assert found.step_ms == step_ms
        assert len(found.lines[0].points) <= 400
        assert found.to_ms - found.from_ms >= days * DAY_MS
    week = seen(worked, days=400)
    assert week.from_ms == over_time.monday_of(week.from_ms)
    assert week.kept_days == 400


def test_leads_see_their_teams_and_others_nothing(worked: ServiceWorld) -> None:
    lead = worked.principal("ada")
    found = seen(worked, lead)
    assert (found.teams, found.of_quotas) == (["vision"], True)
    assert amounts(found.lines[0])[1] == (2000, None, 2000)
    assert {line.name for line in found.lines} == {"", "vision", "gpu"}
    with pytest.raises(BadRequest, match="no team 'nlp' here that you may see: vision"):
        seen(worked, lead, team="nlp")
    for name in ("ann", "bob"):
        with pytest.raises(Forbidden, match="Only admins and leads"):
            seen(worked, worked.principal(name))


def test_a_pool_or_a_team_can_be_chosen_and_one_that_is_unknown_is_refused(
    worked: ServiceWorld,
) -> None:
    found = seen(worked, team="nlp", pool="gpu")
    assert {held for held, _, _ in amounts(found.lines[0])} == {0}
    with pytest.raises(BadRequest, match="no pool 'x' here that you may see: gpu"):
        seen(worked, pool="x")


def test_changes_and_finished_experiments_stand_beside_it(worked: ServiceWorld) -> None:
    worked.script = Script(run_ms=10)
    jobs.submit(worked.service, worked.principal("ann"), a_request(name="short"), key=None)
    for _ in range(3):
        worked.pass_time(MINUTE_MS)
    found = seen(worked, days=14)
    assert sum(week.finished for week in found.weeks) == 1
    assert found.weeks[-1].held_milli_gpu_h > 0
    assert all(mark.at_ms >= found.from_ms for mark in found.marks)


def test_what_was_changed_just_now_is_in_force_and_marked(worked: ServiceWorld) -> None:
    """A point is the mean of its step: of a quota that was changed in it, neither."""

    def now(by: Principal | None = None) -> dict[str, int | None]:
        return {line.name: line.there_now_milli_gpu for line in seen(worked, by).lines[1:]}

    assert now() == {"nlp": 2000, "vision": 2000, "gpu": 4000}
    quota = models.QuotaModel(fixed_milli_gpu=500, guaranteed_milli_gpu=1000)
    change = models.QuotaChange(team="nlp", pool="gpu", quota=quota)
    done(settings.set_quotas(worked.service, worked.admin, models.QuotaChanges(changes=[change])))
    assert now() == {"nlp": 1500, "vision": 2000, "gpu": 4000}
    assert now(worked.principal("ada")) == {"vision": 2000, "gpu": 2000}
    assert "nlp" in seen(worked).marks[-1].text


def test_points_with_their_known_time_are_what_the_report_has_held(worked: ServiceWorld) -> None:
    found = seen(worked)
    report = usage_report.report(
        worked.service, worked.admin, from_ms=found.from_ms, to_ms=worked.now_ms
    )
    held = sum(
        one.allocated_milli_gpu * one.known_ms
        for one in found.lines[0].points
        if one.allocated_milli_gpu is not None
    )
    assert round(held / HOUR_MS) == sum(row.held_milli_gpu_h for row in report.rows)


@pytest.mark.parametrize("days", [days for days, _ in RESOLUTIONS])
def test_the_report_of_the_same_moment_has_the_same_weeks(worked: ServiceWorld, days: int) -> None:
    """Also just after a job has ended, whose minutes are written then."""
    worked.script = Script(run_ms=10)
    jobs.submit(worked.service, worked.principal("ann"), a_request(name="short"), key=None)
    worked.pass_time(2_000)
    week = seen(worked, days=days).weeks[-1]
    report = usage_report.report(
        worked.service, worked.admin, from_ms=week.from_ms, to_ms=worked.now_ms, drawn=True
    )
    assert report.weeks[-1] == week
    assert sum(row.held_milli_gpu_h for row in report.rows) == week.held_milli_gpu_h


@pytest.mark.parametrize("days", [days for days, step_ms in RESOLUTIONS if step_ms >= DAY_MS])
@pytest.mark.parametrize("team", [None, "vision", "nlp"])
def test_days_and_weeks_are_drawn_of_one_reading_of_the_ledger(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch, days: int, team: str | None
) -> None:
    now_minute = world.now_ms // MINUTE_MS
    rows = [
        ledger_row(
            now_minute - 5 - 1441 * number,
            workload_id=WorkloadId(f"w-{number}"),
            held_milli_gpu_ms=1_000_000 * MINUTE_MS,
            team=TeamName(("vision", "nlp")[number % 2]),
            pool=PoolName("gpu"),
        )
        for number in range(150)
    ]
    world.store.add_ledger(world.loop.epoch, rows)
    asked: list[object] = []
    usage = world.store.reports.usage
    monkeypatch.setattr(
        type(world.store.reports),
        "usage",
        lambda _, steps, *, teams: asked.append(steps) or usage(steps, teams=teams),
    )
    found = seen(world, days=days, team=team)
    assert len(asked) == 1
    monday = over_time.monday_of(found.from_ms)
    mine = [row for row in rows if team in (None, row.team)]
    points = found.lines[0].points
    ends = [*(one.from_ms for one in points[1:]), found.to_ms]
    held = sum(
        (one.allocated_milli_gpu or 0) * (end - one.from_ms)
        for one, end in zip(points, ends, strict=True)
    )
    of_weeks = sum(week.held_milli_gpu_h for week in found.weeks) * HOUR_MS
    for since_ms, sums in ((found.from_ms, held), (monday, of_weeks)):
        inside = [row for row in mine if since_ms <= row.minute_ms < found.to_ms]
        assert inside
        assert sums == pytest.approx(sum(row.held_milli_gpu_ms for row in inside), rel=0.01)


def test_days_and_projects_of_a_report_add_up_to_its_ledger(world: ServiceWorld) -> None:
    first = world.now_ms // MINUTE_MS - 3 * 24 * 60
    rows = [
        ledger_row(
            first + 700 * number,
            workload_id=WorkloadId(f"w-{number}"),
            held_milli_gpu_ms=1000 * MINUTE_MS * (number + 1),
            project=("", "thesis", "=1+1")[number % 3],
            team=TeamName(("vision", "nlp")[number % 2]),
            pool=PoolName("gpu"),
        )
        for number in range(6)
    ]
    world.store.add_ledger(world.loop.epoch, rows)
    found = usage_report.report(
        world.service,
        world.admin,
        from_ms=world.now_ms - 5 * DAY_MS,
        to_ms=world.now_ms,
        drawn=True,
    )
    held = sum(row.held_milli_gpu_ms for row in rows) / HOUR_MS
    for sums in (found.rows, found.days):
        assert sum(one.held_milli_gpu_h for one in sums) == pytest.approx(held, rel=0.001)
    assert {row.project for row in found.rows} == {"", "thesis", "=1+1"}
    assert (
        usage_report.report(
            world.service, world.admin, from_ms=found.from_ms, to_ms=found.to_ms
        ).days
        == []
    )
