"""What becomes of an idle notebook is chosen by its user, within what its pool allows, and said as it is."""

import pytest
from service_world import ServiceWorld, done

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import State
from gpucommons.scheduler.errors import Forbidden, InvalidTransition, PolicyRefused
from gpucommons.scheduler.service import idle, leases
from gpucommons.scheduler.service.administration import settings

DAY_MS = 24 * 3600 * 1000


def a_server(world: ServiceWorld, *, keeps: str | None = "kernels", **asked: object) -> str:
    request = models.LeaseRequest.model_validate({"user": "ann", "milli_gpu": 500, **asked})
    lease = done(leases.acquire(world.service, world.hub_service, request, key=None))
    done(leases.started(world.service, world.hub_service, lease.id, models.StartedReport()))
    report = models.ActivityReport.model_validate({"keeps": keeps})
    idle.report_activity(world.service, world.principal("ann"), lease.id, report)
    return lease.id


def seen(world: ServiceWorld, lease_id: str) -> models.LeaseView:
    return leases.lease(world.service, world.principal("ann"), lease_id)


def hibernate(world: ServiceWorld, lease_id: str, text: str = "") -> models.LeaseView:
    by = world.culler if text else world.principal("ann")
    request = models.HibernateRequest(text=text)
    return done(idle.hibernate(world.service, by, lease_id, request))


def report_kept(world: ServiceWorld, lease_id: str, kernels: int) -> None:
    until_ms = world.now_ms + DAY_MS if kernels else None
    body = models.KeptKernelsReport(kernels=kernels, until_ms=until_ms)
    done(leases.report_kept_kernels(world.service, world.principal("ann"), lease_id, body))


def is_down(world: ServiceWorld, lease_id: str) -> None:
    end = models.EndReport(why="stopped")
    done(leases.end_lease(world.service, world.hub_service, lease_id, end))


def choose(world: ServiceWorld, lease_id: str, on_idle: str) -> models.LeaseView:
    request = models.OnIdleRequest.model_validate({"on_idle": on_idle})
    return done(idle.choose_on_idle(world.service, world.principal("ann"), lease_id, request))


# --- how long kernels stay -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of_pool", "chosen", "days"),
    [(7, 3, 3), (7, 0, 7), (7, 30, 7), (None, 30, 30), (None, 0, None)],
)
def test_saved_kernels_stay_as_their_user_chose_and_no_longer_than_the_pool_allows(
    world: ServiceWorld, of_pool: int | None, chosen: int, days: int | None
) -> None:
    lease_id = a_server(world, kernels_kept_days=chosen)
    pool = {"name": seen(world, lease_id).pool, "kernels_kept_days": of_pool, "kernels_kept_gib": 5}
    model = models.PoolModel.model_validate(pool)
    done(settings.put_config(world.service, world.admin, models.ConfigModel(pools=[model])))
    shown = settings.get_config(world.service, world.admin).pools
    assert next(one.kernels_kept_days for one in shown if one.name == model.name) == of_pool

    found = seen(world, lease_id).idle
    assert found is not None
    assert (found.kernels_kept_days, found.kernels_kept_gib) == (days, 5)


# --- hibernating -----------------------------------------------------------------------------


def test_a_notebook_is_hibernated_once_its_server_said_that_its_kernels_are_kept(
    world: ServiceWorld,
) -> None:
    lease_id = a_server(world)
    assert hibernate(world, lease_id, "idle 60 min").state == State.HIBERNATING
    assert ("StopServer", "ann") in world.server_acts
    report_kept(world, lease_id, 2)
    is_down(world, lease_id)
    found = seen(world, lease_id)
    assert (found.state, found.slice, found.ended_text) == ("hibernated", None, "idle 60 min")
    report_kept(world, lease_id, 0)
    awake = seen(world, lease_id)
    assert (awake.state, awake.ended_text, awake.kept) == ("ended", "idle 60 min", None)


def test_without_kernels_that_are_kept_it_has_only_ended(world: ServiceWorld) -> None:
    lease_id = a_server(world)
    hibernate(world, lease_id)
    is_down(world, lease_id)
    assert seen(world, lease_id).state == "ended"


def test_whoever_stopped_it_what_is_kept_makes_it_hibernated(world: ServiceWorld) -> None:
    lease_id = a_server(world)
    report_kept(world, lease_id, 1)
    is_down(world, lease_id)
    assert seen(world, lease_id).state == "hibernated"


def test_a_running_server_that_calls_its_kernels_kept_is_reclaimed_like_any_other(
    world: ServiceWorld,
) -> None:
    lease_id = a_server(world)
    report_kept(world, lease_id, 1)
    assert seen(world, lease_id).state == "active"
    forced = models.ReclaimRequest(force=True, reason="needed")
    done(idle.reclaim(world.service, world.admin, lease_id, forced))
    assert ("StopServer", "ann") in world.server_acts


def test_a_place_that_was_never_taken_is_not_hibernated(world: ServiceWorld) -> None:
    request = models.LeaseRequest.model_validate({"user": "ann", "milli_gpu": 500})
    lease = done(leases.acquire(world.service, world.hub_service, request, key=None))
    report_kept(world, lease.id, 1)
    is_down(world, lease.id)
    assert seen(world, lease.id).state == "ended"


def test_kernels_that_go_on_without_the_gpu_are_not_hibernated(world: ServiceWorld) -> None:
    lease_id = a_server(world)
    done(leases.drop(world.service, world.principal("ann"), lease_id))
    report_kept(world, lease_id, 1)
    is_down(world, lease_id)
    assert seen(world, lease_id).state == "ended"


def test_when_its_kernels_are_removed_it_is_not_called_hibernated_any_more(
    world: ServiceWorld,
) -> None:
    lease_id = a_server(world)
    report_kept(world, lease_id, 1)
    is_down(world, lease_id)
    world.pass_time(DAY_MS)
    assert seen(world, lease_id).state == "ended"


@pytest.mark.parametrize("keeps", ["variables", "nothing", None])
def test_a_server_that_cannot_save_its_kernels_is_not_hibernated(
    world: ServiceWorld, keeps: str | None
) -> None:
    lease_id = a_server(world, keeps=keeps)
    with pytest.raises(InvalidTransition, match="cannot save its kernels"):
        hibernate(world, lease_id)
    assert seen(world, lease_id).state == "active"


def test_the_next_server_has_a_slice_and_a_lease_of_its_own(world: ServiceWorld) -> None:
    first = a_server(world)
    report_kept(world, first, 1)
    is_down(world, first)
    world.pass_time(1000)
    second = a_server(world)
    assert (second != first, seen(world, second).state) == (True, "active")


# --- the choice ------------------------------------------------------------------------------


def test_who_chooses_nothing_has_what_the_pool_says_first(world: ServiceWorld) -> None:
    told = seen(world, a_server(world)).idle
    assert told is not None
    assert (told.on_idle, told.on_idle_allowed) == ("hibernate", ["hibernate", "release", "cull"])


def test_what_was_chosen_with_the_slice_or_later_is_what_is_told(world: ServiceWorld) -> None:
    lease_id = a_server(world, on_idle="cull")
    first = seen(world, lease_id).idle
    assert first is not None
    assert first.on_idle == "cull"
    for chosen, told in (("release", "release"), ("", "hibernate")):
        later = choose(world, lease_id, chosen).idle
        assert later is not None
        assert later.on_idle == told


def test_only_its_owner_chooses(world: ServiceWorld) -> None:
    lease_id = a_server(world)
    for other in (world.principal("alf"), world.culler):
        with pytest.raises(Forbidden):
            idle.choose_on_idle(
                world.service, other, lease_id, models.OnIdleRequest(on_idle="cull")
            )


@pytest.mark.parametrize(
    ("on_idle", "keeps", "text"),
    [
        (
            "hibernate",
            "kernels",
            "Its server is stopped. Kernels that can be saved are kept and go on when it is started"
            " again.",
        ),
        (
            "hibernate",
            "variables",
            "Its server is stopped. Variables that can be stored are kept; all else of its kernels is"
            " lost.",
        ),
        (
            "release",
            "kernels",
            "Its server restarts without its GPU. Kernels that can be saved are kept and go on there.",
        ),
        ("cull", "kernels", "Its server is stopped. Nothing of its kernels is kept."),
        (
            "hibernate",
            None,
            "Its server is stopped. Its server has not said yet what it keeps of its kernels.",
        ),
    ],
)
def test_the_sentence_promises_what_this_server_can_do(
    world: ServiceWorld, on_idle: str, keeps: str | None, text: str
) -> None:
    told = seen(world, a_server(world, keeps=keeps, on_idle=on_idle)).idle
    assert told is not None
    assert told.on_idle_text == text


def test_a_pool_allows_what_its_admin_wrote_and_a_refusal_names_it(world: ServiceWorld) -> None:
    lease_id = a_server(world, on_idle="cull")
    (pool,) = {seen(world, lease_id).pool}
    allow(world, pool, ["release"])
    told = seen(world, lease_id).idle
    assert told is not None
    # What it chose is not allowed any more.
    assert told.on_idle == "release"
    with pytest.raises(PolicyRefused, match="does not allow cull for idle notebooks"):
        choose(world, lease_id, "cull")
    with pytest.raises(PolicyRefused, match="it allows release"):
        hibernate(world, lease_id)


def test_what_a_pool_no_longer_allows_hinders_no_start(world: ServiceWorld) -> None:
    pool = seen(world, a_server(world)).pool
    allow(world, pool, ["release"])
    ticket = models.LeaseRequest.model_validate(
        {"server_name": "two", "milli_gpu": 500, "on_idle": "cull"}
    )
    done(leases.wait_in_line(world.service, world.principal("ann"), ticket, key=None))
    told = seen(world, a_server(world, server_name="two", on_idle="cull")).idle
    assert told is not None
    assert told.on_idle == "release"


def allow(world: ServiceWorld, pool: str, on_idle: list[str]) -> None:
    model = models.PoolModel.model_validate({"name": pool, "on_idle": on_idle})
    config = models.ConfigModel(pools=[model])
    done(settings.put_config(world.service, world.admin, config))
