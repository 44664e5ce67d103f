"""Services that act for others: jobs of a user, and teams that a service keeps."""

import pytest
from service_world import ADMIN, SUBMIT, ServiceWorld, a_request, done

from gpucommons.scheduler import models
from gpucommons.scheduler.errors import BadRequest, Conflict, Forbidden, Misconfigured, UnknownTeam
from gpucommons.scheduler.principal import Principal, PrincipalKind
from gpucommons.scheduler.service.administration import cluster, settings
from gpucommons.scheduler.service.jobs import jobs

KEEPER = "gpucommons-operator"


@pytest.fixture
def keeper(world: ServiceWorld) -> Principal:
    return world.principal(KEEPER, ADMIN, kind=PrincipalKind.HUB_SERVICE)


def test_a_trusted_service_submits_for_a_user(world: ServiceWorld, keeper: Principal) -> None:
    request = a_request(user="ann", team="vision")
    view = jobs.submit(world.service, keeper, request, key="uid-1")
    assert (view.owner, view.submitted_by, view.team) == ("ann", KEEPER, "vision")
    again = jobs.submit(world.service, keeper, request, key="uid-1")
    assert again.id == view.id


def test_the_user_steers_what_was_submitted_for_them(
    world: ServiceWorld, keeper: Principal
) -> None:
    view = jobs.submit(world.service, keeper, a_request(user="ann", team="vision"), key="uid-1")
    cancelled = done(jobs.cancel(world.service, world.principal("ann"), view.id))
    assert cancelled.state in {"cancelled", "cancelling"}


def test_a_service_names_the_team(world: ServiceWorld, keeper: Principal) -> None:
    with pytest.raises(BadRequest, match="team"):
        jobs.submit(world.service, keeper, a_request(user="ann"), key=None)
    with pytest.raises(UnknownTeam):
        jobs.submit(world.service, keeper, a_request(user="ann", team="nobody"), key=None)


def test_nobody_else_submits_for_others(world: ServiceWorld) -> None:
    request = a_request(user="ann", team="vision")
    filtered = world.principal("other", f"{SUBMIT}!user=bob", kind=PrincipalKind.HUB_SERVICE)
    for principal in (world.principal("alf"), world.admin, world.hub_service, filtered):
        with pytest.raises(Forbidden, match="for ann"):
            jobs.submit(world.service, principal, request, key=None)


def test_a_service_submits_nothing_of_its_own(world: ServiceWorld, keeper: Principal) -> None:
    with pytest.raises(Forbidden, match="only people"):
        jobs.submit(world.service, keeper, a_request(team="vision"), key=None)
    with pytest.raises(Forbidden, match="only people"):
        jobs.submit(world.service, world.hub_service, a_request(team="vision"), key=None)


def kept(guaranteed: int = 1000, **changes: object) -> models.ConfigModel:
    team = {
        "name": "vision",
        "quotas": {"gpu": {"guaranteed_milli_gpu": guaranteed}},
        "managed_by": KEEPER,
        **changes,
    }
    return models.ConfigModel.model_validate({"teams": [team]})


def test_a_kept_team_is_read_only_elsewhere(world: ServiceWorld, keeper: Principal) -> None:
    done(settings.put_config(world.service, keeper, kept()))
    other = kept(500, managed_by=None)
    unaware = models.ConfigModel.model_validate({"teams": [{"name": "vision"}]})
    quotas = models.QuotaChanges(
        changes=[models.QuotaChange(team="vision", pool="gpu", quota=models.QuotaModel())]
    )
    with pytest.raises(Conflict, match=r"kept by gpucommons-operator .* kubectl edit"):
        done(settings.put_config(world.service, world.admin, unaware))
    with pytest.raises(Conflict, match="can only be read here"):
        done(settings.set_quotas(world.service, world.admin, quotas))
    removal = models.ConfigModel(removed_teams=["vision"])
    with pytest.raises(Conflict, match="kept by"):
        done(settings.put_config(world.service, world.admin, removal))
    done(settings.put_config(world.service, keeper, kept(1500)))
    (view,) = [t for t in cluster.teams(world.service, world.admin).teams if t.name == "vision"]
    assert view.managed_by == KEEPER
    # What is in force may be applied again; a copy of the whole configuration stays usable.
    done(settings.put_config(world.service, world.admin, kept(1500)))
    done(settings.put_config(world.service, world.admin, other))
    assert world.cluster.teams["vision"].managed_by is None  # type: ignore[index]


def test_nobody_makes_another_the_keeper(world: ServiceWorld) -> None:
    with pytest.raises(Misconfigured, match="managed_by"):
        done(settings.put_config(world.service, world.admin, kept()))


def test_a_team_is_removed_when_nothing_of_it_lives(world: ServiceWorld) -> None:
    held = jobs.submit(world.service, world.principal("ann"), a_request(), key=None)
    removal = models.ConfigModel(removed_teams=["vision"])
    with pytest.raises(Conflict, match="still has 1 workload"):
        done(settings.put_config(world.service, world.admin, removal))
    done(jobs.cancel(world.service, world.principal("ann"), held.id))
    world.pass_time(60_000)
    done(settings.put_config(world.service, world.admin, removal))
    assert "vision" not in world.cluster.teams


def test_a_team_is_not_saved_and_removed_at_once(world: ServiceWorld) -> None:
    both = models.ConfigModel.model_validate(
        {"teams": [{"name": "vision"}], "removed_teams": ["vision"]}
    )
    with pytest.raises(Misconfigured, match="both saved and removed"):
        done(settings.put_config(world.service, world.admin, both))
