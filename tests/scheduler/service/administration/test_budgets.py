"""A team's budget of a month is said from 80 % on, and at 100 % its policy holds; nothing that runs is stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from service_world import ServiceWorld, a_request, done

from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.budgets import Budgets
from gpucommons.scheduler.core.model.types import (
    HoldClass,
    Kind,
    Millis,
    PoolName,
    TeamName,
    UserName,
    WorkloadId,
)
from gpucommons.scheduler.errors import Forbidden, UnknownTeam
from gpucommons.scheduler.service import leases
from gpucommons.scheduler.service.administration import budgets, settings
from gpucommons.scheduler.service.jobs import jobs
from gpucommons.scheduler.store.base import LedgerRow
from gpucommons.scheduler.store.reports.base import Steps

HOUR = 3_600_000
PRICED = {
    "pools": [
        {
            "name": "gpu",
            "executor": "fake",
            "notice_s": 10,
            "grace_s": 10,
            "currency": "EUR",
            "prices": [{"per_gpu_h": 2.0}],
        }
    ],
    "teams": [
        {
            "name": "vision",
            "members": ["ann"],
            "quotas": {"gpu": {"fixed_milli_gpu": 1000, "guaranteed_milli_gpu": 1000}},
        },
        {"name": "nlp", "members": ["bob"], "quotas": {"gpu": {"guaranteed_milli_gpu": 1000}}},
    ],
}


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    return ServiceWorld(tmp_path, config=PRICED)


def used(world: ServiceWorld, gpu_hours: float, team: str = "vision") -> None:
    """Minutes of this month that somebody of the team held."""
    row = LedgerRow(
        workload_id=WorkloadId(f"w-{team}"),
        minute_ms=Millis(world.now_ms),
        team=TeamName(team),
        pool=PoolName("gpu"),
        owner=UserName("ann"),
        kind=Kind.TRAINING,
        hold_class=HoldClass.GUARANTEED,
        held_milli_gpu_ms=round(gpu_hours * 1000 * HOUR),
    )
    world.store.add_ledger(world.loop.epoch, [row])


def give(world: ServiceWorld, **budget: Any) -> models.BudgetView:
    change = models.BudgetChange(budget=models.BudgetModel(**budget))
    view = done(budgets.set_budget(world.service, world.admin, "vision", change))
    assert isinstance(view, models.BudgetView)
    return view


def look(world: ServiceWorld) -> None:
    world.pass_time(61_000)
    Budgets(world.service).step()


def submit(world: ServiceWorld, milli_gpu: int = 1000, by: str = "ann") -> models.JobView:
    request = a_request(role={"milli_gpu": milli_gpu})
    return jobs.submit(world.service, world.principal(by), request, key=None)


def state(world: ServiceWorld, job: models.JobView) -> models.JobView:
    return jobs.job(world.service, world.admin, job.id)


def test_it_is_said_from_80_per_cent_on(world: ServiceWorld) -> None:
    assert give(world, money=20).state == "ok"
    used(world, 7.9)
    assert give(world, money=20).state == "ok"
    used(world, 8)
    (found,) = budgets.budgets(world.service, world.principal("ann")).budgets
    assert (found.state, found.percent, found.spent_money) == ("near", 80, 16.0)
    assert found.text.startswith("vision has used 80 % of its ")
    assert found.text.endswith("budget: 16.00 of 20.00 EUR.")


def test_of_a_small_budget_it_is_said_how_much_was_used(world: ServiceWorld) -> None:
    give(world, gpu_hours=0.05)
    used(world, 0.044)
    (found,) = budgets.budgets(world.service, world.principal("ann")).budgets
    assert found.text.endswith("budget: 0.044 of 0.05 GPU-hours.")


def test_what_a_second_took_of_a_small_budget_is_said_without_an_exponent(
    world: ServiceWorld,
) -> None:
    give(world, gpu_hours=0.05)
    used(world, 0.3 / 3600)
    (found,) = budgets.budgets(world.service, world.principal("ann")).budgets
    assert found.text.endswith("budget: <0.001 of 0.05 GPU-hours.")


def test_a_month_is_not_added_up_at_each_look(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    used(world, 3)
    world.pass_time(5 * HOUR)
    used(world, 4)
    asked: list[int] = []
    sums = world.store.reports

    class Counted:
        def usage(self, steps: Steps, **more: Any) -> Any:
            asked.append(steps.to_ms - steps.from_ms)
            return sums.usage(steps, **more)

    monkeypatch.setattr(world.store, "reports", Counted())
    give(world, money=20)
    asked.clear()
    assert give(world, money=20).spent_gpu_hours == 7
    assert 0 < sum(asked) <= 4 * HOUR
    # Minutes that a scheduler wrote late are counted before the day is over.
    world.now_ms -= 4 * HOUR
    used(world, 1, team="nlp")
    world.now_ms += 4 * HOUR
    world.pass_time(7 * HOUR)
    late = budgets.budgets(world.service, world.principal("bob")).budgets
    assert [one.spent_gpu_hours for one in late] == [1]


def test_warn_changes_nothing_but_what_is_said(world: ServiceWorld) -> None:
    give(world, gpu_hours=5)
    used(world, 5)
    look(world)
    job = submit(world, 2000)
    assert job.warnings[0].startswith("vision has used up its ")
    assert job.warnings[0].endswith("By its policy (warn) its jobs start all the same.")
    assert state(world, job).hold_class == "over-quota"


def test_no_borrow_keeps_jobs_inside_the_quota(world: ServiceWorld) -> None:
    give(world, gpu_hours=5, at_full="no-borrow")
    used(world, 5)
    look(world)
    large, small = submit(world, 2000), submit(world, 1000)
    assert "its jobs run inside its quota alone" in large.warnings[0]
    assert state(world, large).state == "queued"
    assert state(world, small).hold_class == "guaranteed"
    world.pass_time(1000)
    reason = state(world, large).reason
    assert reason is not None
    assert reason.code == "policy"
    assert reason.text.endswith(
        " budget of 5 GPU-hours. So vision may not borrow, and only 1 GPU is guaranteed to it: at this size"
        " the job waits until there is budget again."
    )
    assert reason.unblock == "Ask an admin for more budget, or start it with 1 GPU."
    # This one only waits for its team mate.
    second = submit(world, 1000)
    world.pass_time(1000)
    reason = state(world, second).reason
    assert reason is not None
    assert reason.code == "limit"
    assert "and vision may not borrow: vision has used up its" in reason.text
    assert reason.unblock == "Ask an admin for more budget."
    # Of the other team nothing is kept.
    assert state(world, submit(world, 2000, by="bob")).hold_class == "over-quota"


def test_a_budget_that_is_used_up_already_holds_from_the_cycle_that_sets_it(
    world: ServiceWorld,
) -> None:
    used(world, 5)
    assert give(world, gpu_hours=5, at_full="no-borrow").state == "full"
    assert state(world, submit(world, 2000)).state == "queued"
    # Another one that leaves some, and none at all, hold as soon.
    give(world, gpu_hours=50, at_full="no-borrow")
    assert state(world, submit(world, 2000)).hold_class == "over-quota"
    told = [one.event.text for one in world.store.events(kinds=frozenset({"budget"}))]
    assert told[0].startswith("vision has used up its")
    assert told[1:] == ["vision has budget left."]


def test_what_runs_on_borrowed_gpus_goes_on_when_the_budget_is_used_up(
    world: ServiceWorld,
) -> None:
    borrowed = submit(world, 2000)
    used(world, 5)
    give(world, gpu_hours=5, at_full="no-borrow")
    look(world)
    assert state(world, borrowed).hold_class == "over-quota"
    assert state(world, borrowed).state in ("starting", "running")


def test_no_new_jobs_lets_nothing_start_and_says_why(world: ServiceWorld) -> None:
    give(world, money=10, at_full="no-new-jobs")
    used(world, 5)
    look(world)
    job = state(world, submit(world))
    assert job.state == "queued"
    assert job.reason is not None
    assert job.reason.code == "policy"
    assert job.reason.text.startswith("vision has used up its ")
    assert job.reason.unblock == "Ask an admin for more budget."
    give(world, money=100, at_full="no-new-jobs")
    look(world)
    assert state(world, job).state in ("starting", "running")


def test_nothing_that_runs_is_stopped_and_notebooks_start(world: ServiceWorld) -> None:
    give(world, gpu_hours=5, at_full="no-new-jobs")
    running = submit(world, 2000)
    used(world, 6)
    look(world)
    assert state(world, running).state in ("starting", "running")
    lease = models.LeaseRequest(user="ann", milli_gpu=500)
    view = done(leases.acquire(world.service, world.hub_service, lease, key=None))
    assert view.state in {"granted", "active"}


def test_the_next_month_begins_with_a_whole_budget(world: ServiceWorld) -> None:
    give(world, gpu_hours=5, at_full="no-new-jobs")
    used(world, 5)
    look(world)
    job = submit(world)
    assert state(world, job).state == "queued"
    world.pass_time(31 * 24 * HOUR)
    look(world)
    assert state(world, job).state != "queued"


def test_a_configuration_that_says_nothing_of_budgets_keeps_them_and_null_takes_them(
    world: ServiceWorld,
) -> None:
    give(world, gpu_hours=5, at_full="no-new-jobs")
    used(world, 5)
    look(world)
    done(settings.put_config(world.service, world.admin, models.ConfigModel(**PRICED)))
    team = world.cluster.teams[TeamName("vision")]
    assert team.budget is not None
    assert team.budget_spent
    teams = [{**PRICED["teams"][0], "budget": None}]
    config = models.ConfigModel.model_validate({"teams": teams})
    done(settings.put_config(world.service, world.admin, config))
    team = world.cluster.teams[TeamName("vision")]
    assert (team.budget, team.budget_spent) == (None, "")


def test_a_budget_is_set_by_admins_and_seen_by_its_team(world: ServiceWorld) -> None:
    change = models.BudgetChange(budget=models.BudgetModel(gpu_hours=1))
    with pytest.raises(Forbidden):
        budgets.set_budget(world.service, world.principal("ann"), "vision", change)
    with pytest.raises(UnknownTeam, match="Teams: nlp, vision"):
        budgets.set_budget(world.service, world.admin, "speech", change)
    give(world, gpu_hours=5)
    assert [one.team for one in budgets.budgets(world.service, world.principal("bob")).budgets] == [
        "nlp"
    ]
    assert len(budgets.budgets(world.service, world.admin).budgets) == 2
    told = [stored.event.text for stored in world.store.events(kinds=frozenset({"team-changed"}))]
    assert told[-1] == "vision: budget none → 5 GPU-hours a month, then warn."


@pytest.mark.parametrize(
    "wrong", [{}, {"money": 1, "gpu_hours": 1}, {"money": 0}, {"money": 4e-7}, {"gpu_hours": 4e-4}]
)
def test_a_budget_counts_one_thing_and_is_more_than_nothing(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        models.BudgetModel(**wrong)  # type: ignore[arg-type]


def test_looking_again_and_after_a_restart_says_nothing_twice(world: ServiceWorld) -> None:
    give(world, gpu_hours=5)
    used(world, 5)
    for _ in range(3):
        look(world)
    assert len(world.store.events(kinds=frozenset({"budget"}))) == 1
