"""Who waits for another team's work to end reads what it is, not whose."""

from pathlib import Path

import pytest
from builders import a_node
from service_world import PAUSES, ServiceWorld, a_request, done

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import State
from gpucommons.scheduler.service import leases, why
from gpucommons.scheduler.service.administration import settings
from gpucommons.scheduler.service.jobs import jobs

OTHERS = "Next in line: 1 GPU is being cleared, a borrowing job of another team ends there first"


@pytest.fixture
def lent(tmp_path: Path) -> ServiceWorld:
    """One GPU, nlp's; a job of vision borrows it."""
    pools = [{"name": "gpu", "executor": "fake", **PAUSES}]
    teams = [
        {"name": "vision", "members": ["ann"], "quotas": {"gpu": {}}},
        {"name": "nlp", "members": ["bob"], "quotas": {"gpu": {"fixed_milli_gpu": 1000}}},
    ]
    world = ServiceWorld(
        tmp_path, config={"pools": pools, "teams": teams}, nodes=[a_node("n1", 1, pool="gpu")]
    )
    request = a_request(name="secret-plan", role={"milli_gpu": 1000})
    jobs.submit(world.service, world.principal("ann"), request, key=None)
    world.pass_time(100)
    return world


def a_ticket(world: ServiceWorld) -> models.LeaseView:
    request = models.LeaseRequest(milli_gpu=1000)
    return done(leases.wait_in_line(world.service, world.principal("bob"), request, key=None))


def test_a_ticket_does_not_name_another_teams_job(lent: ServiceWorld) -> None:
    ticket = a_ticket(lent)
    assert ticket.reason is not None
    assert ticket.reason.text == f"{OTHERS}."
    bob = lent.principal("bob")
    answer = done(why.why_lease(lent.service, bob, ticket.id))
    assert "secret" not in answer.model_dump_json()


def test_of_another_teams_ticket_the_kind_of_its_reason_is_told(lent: ServiceWorld) -> None:
    a_ticket(lent)
    listed = leases.leases(lent.service, lent.principal("ann"), state=State.WAITING, cursor=None)
    (seen,) = listed.leases
    assert (seen.user, seen.forecast) == ("", None)
    assert seen.reason == models.ReasonView(code="draining", text="")


def test_admins_read_the_names(lent: ServiceWorld) -> None:
    ticket = a_ticket(lent)
    named = f"{OTHERS} (vision/secret-plan-1)."
    answer = done(why.why_lease(lent.service, lent.admin, ticket.id))
    assert answer.reason is not None
    assert answer.reason.text == named
    seen = leases.lease(lent.service, lent.admin, ticket.id)
    assert seen.reason is not None
    assert seen.reason.text == named


def test_names_are_shown_where_policy_says_so(lent: ServiceWorld) -> None:
    policy = models.ConfigModel.model_validate({"policy": {"show_names": True}})
    done(settings.put_config(lent.service, lent.admin, policy))
    ticket = a_ticket(lent)
    assert ticket.reason is not None
    assert ticket.reason.text == f"{OTHERS} (vision/secret-plan-1)."


def test_a_job_of_the_own_team_is_named(lent: ServiceWorld) -> None:
    quota = models.QuotaModel(fixed_milli_gpu=1000)
    changes = [
        models.QuotaChange(team="nlp", pool="gpu", quota=models.QuotaModel()),
        models.QuotaChange(team="vision", pool="gpu", quota=quota),
    ]
    done(settings.set_quotas(lent.service, lent.admin, models.QuotaChanges(changes=changes)))
    request = models.LeaseRequest(milli_gpu=1000)
    ticket = done(leases.wait_in_line(lent.service, lent.principal("ann"), request, key=None))
    assert ticket.reason is not None
    assert ticket.reason.text == (
        "Next in line: 1 GPU is being cleared, secret-plan-1 ends there first."
    )
