"""Notebooks' leases: taken, waited for, used, ended."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError
from service_world import ServiceWorld, a_request, done

from gpucommons.gpu.errors import AgentUnavailable
from gpucommons.gpu.slices.slices import GpuSlice, SliceId
from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.housekeeping import OPERATOR
from gpucommons.scheduler.core.events.leases import NOT_STARTED
from gpucommons.scheduler.core.model.intents import Cancel
from gpucommons.scheduler.core.model.types import WorkloadId
from gpucommons.scheduler.errors import (
    BadRequest,
    Forbidden,
    InvalidTransition,
    Misconfigured,
    NoFreeSlice,
    UnknownWorkload,
)
from gpucommons.scheduler.service import leases, notebook_offers
from gpucommons.scheduler.service.in_memory.slices import Slices
from gpucommons.scheduler.service.jobs import jobs
from gpucommons.scheduler.service.views.leases import IdleLimits


def acquire(world: ServiceWorld, user: str = "ann", **ask: object) -> models.LeaseView:
    request = models.LeaseRequest(**{"user": user, "milli_gpu": 500, **ask})
    return done(leases.acquire(world.service, world.hub_service, request, key=None))


def started(world: ServiceWorld, lease: models.LeaseView, pid: int | None = 4242) -> None:
    done(leases.started(world.service, world.hub_service, lease.id, models.StartedReport(pid=pid)))


def end(world: ServiceWorld, lease: models.LeaseView, why: str = "stopped") -> models.LeaseView:
    report = models.EndReport(why=why)
    return done(leases.end_lease(world.service, world.hub_service, lease.id, report))


def test_a_free_slice_is_taken_opened_and_bound(world: ServiceWorld) -> None:
    lease = acquire(world)
    assert lease.slice is not None
    assert (lease.slice.milli_gpu, lease.slice.memory_mib) == (500, (40960 - 1228) // 2)
    assert list(world.agent.opened) == [lease.slice.slice_id]
    started(world, lease)
    assert world.agent.bound == {lease.slice.slice_id: [4242]}
    mine = leases.my_lease(world.service, world.principal("ann"), None)
    assert (mine.id, mine.state) == (lease.id, "active")
    # The idle rule holds before the culler has said anything.
    assert lease.idle is not None
    assert (lease.idle.idle_since_ms, lease.idle.idle_after_min) == (None, 60)


def test_the_groups_of_the_hub_say_who_is_in_a_team(world: ServiceWorld) -> None:
    assert acquire(world, "bob").team == "nlp"
    with pytest.raises(Forbidden, match="in no team"):
        acquire(world, "eve")


def test_a_size_that_is_taken_is_refused_and_leaves_nothing(world: ServiceWorld) -> None:
    acquire(world, milli_gpu=1000)
    with pytest.raises(NoFreeSlice):
        acquire(world, "alf")
    assert len(leases.live_leases(world.service)) == 1


def test_a_repeated_acquire_is_the_same_lease(world: ServiceWorld) -> None:
    assert acquire(world).id == acquire(world).id


def test_only_the_hub_acquires_and_only_for_somebody(world: ServiceWorld) -> None:
    request = models.LeaseRequest(milli_gpu=500)
    with pytest.raises(Forbidden):
        leases.acquire(world.service, world.principal("ann"), request, key=None)
    with pytest.raises(BadRequest, match="user"):
        leases.acquire(world.service, world.hub_service, request, key=None)


def test_the_device_is_free_only_when_no_process_is_left(world: ServiceWorld) -> None:
    lease = acquire(world, milli_gpu=1000)
    started(world, lease)
    assert end(world, lease).state == "active"
    world.service.slices.step()
    with pytest.raises(NoFreeSlice):
        acquire(world, "alf")
    assert lease.slice is not None
    world.agent.bound[lease.slice.slice_id].clear()
    world.service.slices.step()
    assert leases.lease(world.service, world.principal("ann"), lease.id).state == "ended"
    assert acquire(world, "alf", milli_gpu=1000).state == "granted"
    world.service.slices.step()
    assert lease.slice.slice_id not in world.agent.opened


def test_waiting_is_a_ticket_that_is_granted_and_starts_its_server(world: ServiceWorld) -> None:
    first = acquire(world, milli_gpu=1000)
    alf = world.principal("alf")
    ticket = done(
        leases.wait_in_line(world.service, alf, models.LeaseRequest(milli_gpu=500), key=None)
    )
    assert (ticket.state, ticket.position) == ("waiting", 1)
    again = done(
        leases.wait_in_line(world.service, alf, models.LeaseRequest(milli_gpu=500), key=None)
    )
    assert again.id == ticket.id
    end(world, first)
    world.pass_time(1000)
    granted = leases.lease(world.service, alf, ticket.id)
    assert granted.state == "granted"
    assert ("StartServer", "alf") in world.server_acts
    assert acquire(world, "alf").id == ticket.id


def test_who_chooses_another_server_while_waiting_keeps_the_place(world: ServiceWorld) -> None:
    acquire(world, milli_gpu=1000)
    alf = world.principal("alf")

    def wait(**chosen: list[str]) -> models.LeaseView:
        request = models.LeaseRequest(milli_gpu=500, other_options=chosen)
        return done(leases.wait_in_line(world.service, alf, request, key=None))

    small = wait(profile=["small"])
    world.pass_time(60_000)
    big = wait(profile=["big"])
    assert big.other_options == {"profile": ["big"]}
    assert (big.requested_ms, big.position) == (small.requested_ms, 1)
    assert wait(profile=["big"]).id == big.id
    seen = leases.leases(world.service, world.principal("bob"), state=None, cursor=None).leases
    assert [one.other_options for one in seen] == [{}] * len(seen)
    admin = world.principal("root", "custom:gpucommons:admin")
    for reader in (world.principal("ann"), admin, world.culler):
        read = leases.lease(world.service, reader, big.id)
        assert (read.milli_gpu, read.other_options) == (500, {})
    assert leases.lease(world.service, world.hub_service, big.id).other_options == {
        "profile": ["big"]
    }


@pytest.mark.parametrize(
    "options",
    [
        {"opt-milli_gpu": ["9"]},
        {"a": ["b" * 500] * 20},
        # The spawner, which writes them in ASCII and has ours beside them, would refuse the start.
        {"a": ["b" * 500] * 16},
        {"a": ["é" * 400] * 8},
        {"a\n": ["b"]},
        {"a": ["\x1b[2J"]},
        {"display_name": ["x"]},
        {"opt-user_options": ["x"]},
        {"_xsrf": ["x"]},
        {"profile": []},
    ],
)
def test_options_that_are_ours_or_no_forms_are_refused(options: dict[str, list[str]]) -> None:
    with pytest.raises(ValidationError):
        models.LeaseRequest(milli_gpu=500, other_options=options)


def test_a_ticket_is_personal_and_its_owner_may_leave(world: ServiceWorld) -> None:
    acquire(world, milli_gpu=1000)
    alf = world.principal("alf")
    with pytest.raises(Forbidden, match="personal"):
        leases.wait_in_line(
            world.service, alf, models.LeaseRequest(user="ann", milli_gpu=500), key=None
        )
    ticket = done(
        leases.wait_in_line(world.service, alf, models.LeaseRequest(milli_gpu=500), key=None)
    )
    left = models.EndReport(why="left")
    with pytest.raises(Forbidden):
        leases.end_lease(world.service, world.principal("ann"), ticket.id, left)
    assert done(leases.end_lease(world.service, alf, ticket.id, left)).state == "ended"


def test_who_leaves_a_line_is_named_and_puts_no_words_into_the_schedulers_mouth(
    world: ServiceWorld,
) -> None:
    acquire(world, milli_gpu=1000)
    alf = world.principal("alf")
    asked = models.LeaseRequest(milli_gpu=500)
    ticket = done(leases.wait_in_line(world.service, alf, asked, key=None))
    left = models.EndReport(why="left", text="Reclaimed by ann (admin): card 3 is broken")
    assert done(leases.end_lease(world.service, alf, ticket.id, left)).ended_text == "Left the line"
    (told,) = world.store.events(kinds=frozenset({"lease-ended"}))
    assert (told.event.by, told.event.text) == ("alf", "Left the line")


def test_whose_ticket_a_lead_ends_is_told_who_did(world: ServiceWorld) -> None:
    acquire(world, milli_gpu=1000)
    alf = world.principal("alf")
    asked = models.LeaseRequest(milli_gpu=500)
    ticket = done(leases.wait_in_line(world.service, alf, asked, key=None))
    left = models.EndReport(why="left")
    done(leases.end_lease(world.service, world.principal("ada"), ticket.id, left))
    told = notebook_offers.offers(world.service, alf, None, "").last_end
    assert told is not None
    assert told.endswith(": Taken out of the line by ada.")


@pytest.mark.parametrize("text", ["one\ntwo", "\u202edesrever", "\u2067isolated", "bell\a"])
def test_texts_are_one_line_in_one_direction(text: str) -> None:
    with pytest.raises(ValidationError, match="should match pattern"):
        models.EndReport(text=text)


def test_an_owner_cannot_free_a_device_under_a_running_server(world: ServiceWorld) -> None:
    lease = acquire(world)
    started(world, lease)
    with pytest.raises(Forbidden, match="stopping its server"):
        leases.end_lease(
            world.service, world.principal("ann"), lease.id, models.EndReport(why="left")
        )


def test_an_owner_cannot_say_that_a_server_is_gone_that_is_being_started(
    world: ServiceWorld,
) -> None:
    lease = acquire(world)
    ann = world.principal("ann")
    for why in ("stopped", "left"):
        with pytest.raises(Forbidden, match="stopping its server"):
            leases.end_lease(world.service, ann, lease.id, models.EndReport(why=why))
    started(world, lease)
    assert leases.lease(world.service, ann, lease.id).state == "active"


def test_a_server_that_comes_up_after_its_end_is_not_confirmed(world: ServiceWorld) -> None:
    lease = acquire(world)
    assert lease.slice is not None
    world.agent.bound[lease.slice.slice_id] = [4242]
    end(world, lease, "failed")
    with pytest.raises(InvalidTransition, match="being taken back"):
        started(world, lease)


def test_the_cullers_reason_replaces_the_plain_one(world: ServiceWorld) -> None:
    lease = acquire(world)
    started(world, lease, pid=None)
    end(world, lease)
    ann = world.principal("ann")
    assert notebook_offers.offers(world.service, ann, None, "").last_end is None
    report = models.EndReport(why="culled", text="idle 60 min")
    done(leases.end_lease(world.service, world.culler, lease.id, report))
    ended = datetime.fromtimestamp(world.now_ms / 1000, UTC).astimezone()
    last_end = notebook_offers.offers(world.service, ann, None, "").last_end
    assert last_end == f"Stopped at {ended:%H:%M}: idle 60 min."
    world.now_ms += 3 * 24 * 3600 * 1000
    later = notebook_offers.offers(world.service, ann, None, "").last_end
    assert later == f"Stopped at {ended:%H:%M} on {ended.day} {ended:%B}: idle 60 min."


def test_who_lost_the_place_in_line_reads_why_where_the_next_server_is_started(
    world: ServiceWorld,
) -> None:
    ann = world.principal("ann")
    ticket = done(
        leases.wait_in_line(world.service, ann, models.LeaseRequest(milli_gpu=500), key=None)
    )
    text = "Its turn came while this server ran already"
    done_by_hub = Cancel(workload_id=WorkloadId(ticket.id), why=NOT_STARTED, text=text)
    world.service.ask(OPERATOR, done_by_hub)
    world.pass_time(0)
    ended = datetime.fromtimestamp(world.now_ms / 1000, UTC).astimezone()
    last_end = notebook_offers.offers(world.service, ann, None, "").last_end
    assert last_end == f"Not in line since {ended:%H:%M}: {text}."


def test_dropping_the_gpu_stops_the_server(world: ServiceWorld) -> None:
    lease = acquire(world)
    with pytest.raises(InvalidTransition):
        leases.drop(world.service, world.principal("ann"), lease.id)
    started(world, lease)
    with pytest.raises(Forbidden):
        leases.drop(world.service, world.principal("alf"), lease.id)
    done(leases.drop(world.service, world.principal("ann"), lease.id))
    assert ("StopServer", "ann") in world.server_acts


def test_keep_works_twice(world: ServiceWorld) -> None:
    lease = acquire(world)
    started(world, lease)
    ann = world.principal("ann")
    for left in (1, 0):
        kept = done(leases.keep(world.service, ann, lease.id, models.KeepRequest()))
        assert kept.idle is not None
        assert kept.idle.keeps_left == left
    with pytest.raises(InvalidTransition, match="as often as allowed"):
        done(leases.keep(world.service, ann, lease.id, models.KeepRequest()))


def test_others_see_leases_without_names(world: ServiceWorld) -> None:
    acquire(world, server_name="lab")
    (seen,) = leases.leases(world.service, world.principal("bob"), state=None, cursor=None).leases
    assert (seen.user, seen.server_name, seen.slice, seen.team) == ("", "", None, "vision")
    with pytest.raises(UnknownWorkload):
        leases.lease(world.service, world.principal("bob"), seen.id)
    (mine,) = leases.leases(world.service, world.principal("alf"), state=None, cursor=None).leases
    assert (mine.user, mine.server_name) == ("ann", "lab")


def test_offers_agree_with_what_a_start_would_get(world: ServiceWorld) -> None:
    ann = world.principal("ann")
    (offer,) = notebook_offers.offers(world.service, ann, None, "").offers
    assert [(size.milli_gpu, size.availability) for size in offer.sizes] == [
        (250, "free"),
        (500, "free"),
        (1000, "free"),
    ]
    acquire(world, "alf", milli_gpu=500)
    (offer,) = notebook_offers.offers(world.service, ann, None, "").offers
    assert [size.availability for size in offer.sizes] == ["free", "free", "wait"]
    assert offer.fixed_used_milli_gpu == 500
    with pytest.raises(Forbidden, match="personal"):
        notebook_offers.offers(world.service, ann, "alf", "")
    assert notebook_offers.offers(world.service, world.hub_service, "bob", "").user == "bob"


def test_the_size_that_somebody_nearly_always_takes_is_their_usual_one(
    world: ServiceWorld,
) -> None:
    def usual(user: str) -> int | None:
        return notebook_offers.offers(world.service, world.hub_service, user, "").usual_milli_gpu

    for milli_gpu in (250, 500, 500):
        end(world, acquire(world, "ann", milli_gpu=milli_gpu))
        world.pass_time(1000)
        assert usual("ann") is None
    end(world, acquire(world, "ann", milli_gpu=500))
    assert (usual("ann"), usual("alf")) == (500, None)


def test_who_has_nothing_to_choose_from_is_told_from_who_is_in_no_team(world: ServiceWorld) -> None:
    of_bob, of_eve = (
        notebook_offers.offers(world.service, world.hub_service, name, "")
        for name in ("bob", "eve")
    )
    assert (of_bob.teams, of_eve.teams) == (["nlp"], [])


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        ({"milli_gpu": 300}, "is not a notebook size of pool gpu: it offers"),
        ({"milli_gpu": 500, "pool": "cpu"}, "no fixed quota for notebooks in pool cpu"),
        ({"milli_gpu": 500, "gpu_kind": "H100"}, "no GPU of kind 'H100'"),
    ],
)
def test_what_can_never_be_is_refused_with_what_can(
    world: ServiceWorld, ask: dict[str, object], sentence: str
) -> None:
    with pytest.raises(Misconfigured, match=sentence):
        acquire(world, **ask)


def test_a_job_is_no_lease_and_a_lease_is_no_job(world: ServiceWorld) -> None:
    ann = world.principal("ann")
    job = jobs.submit(world.service, ann, a_request(), key=None)
    with pytest.raises(UnknownWorkload):
        leases.lease(world.service, ann, job.id)
    with pytest.raises(UnknownWorkload):
        jobs.job(world.service, ann, acquire(world).id)


@pytest.mark.parametrize("has_agent", [True, False])
def test_a_lease_holds_while_the_pod_of_its_server_is_there(
    world: ServiceWorld, has_agent: bool
) -> None:
    lease = acquire(world)
    assert lease.slice is not None
    pods = {lease.slice.slice_id}
    kept = Slices(
        world.agent if has_agent else None,
        cluster=lambda: world.cluster,
        observe=world.loop.observe,
        has_pod=lambda slice_id: slice_id in pods,
    )
    world.service = replace(world.service, slices=kept)
    end(world, lease)
    kept.step()
    world.pass_time(60_000)
    assert [one.workload_id for one in leases.live_leases(world.service)] == [lease.id]
    pods.clear()
    kept.step()
    world.pass_time(1000)
    assert not leases.live_leases(world.service)


def test_a_restarted_service_closes_what_nobody_holds_any_more(world: ServiceWorld) -> None:
    lease = acquire(world)
    started(world, lease, pid=None)
    end(world, lease)
    assert lease.slice is not None
    assert lease.slice.slice_id in world.agent.opened
    held = acquire(world, "bob")
    restarted = Slices(world.agent, cluster=lambda: world.cluster, observe=world.loop.observe)
    restarted.step()
    assert held.slice is not None
    assert list(world.agent.opened) == [held.slice.slice_id]


def test_a_slice_that_is_granted_while_others_are_looked_at_stays_open(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    acquire(world)
    granted: list[models.LeaseView] = []
    opening = world.agent.open

    def slow(gpu_slice: GpuSlice, *, used: bool = False) -> None:
        monkeypatch.setattr(world.agent, "open", opening)
        opening(gpu_slice, used=used)
        granted.append(acquire(world, "bob"))

    monkeypatch.setattr(world.agent, "open", slow)
    world.service.slices.step()
    (lease,) = granted
    assert lease.slice is not None
    assert lease.slice.slice_id in world.agent.opened
    started(world, lease)
    world.service.slices.step()
    assert world.agent.reading(lease.slice.slice_id).pids


def test_a_slice_that_could_not_be_closed_is_closed_later(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = acquire(world)
    end(world, lease)
    assert lease.slice is not None
    closing = world.agent.close_slice

    def away(_slice_id: SliceId) -> None:
        raise AgentUnavailable

    monkeypatch.setattr(world.agent, "close_slice", away)
    world.service.slices.step()
    assert lease.slice.slice_id in world.agent.opened
    monkeypatch.setattr(world.agent, "close_slice", closing)
    world.service.slices.step()
    assert lease.slice.slice_id not in world.agent.opened


def test_a_slice_that_its_agent_lost_is_not_empty_before_the_agent_has_looked(
    world: ServiceWorld,
) -> None:
    lease = acquire(world, milli_gpu=1000)
    started(world, lease)
    assert lease.slice is not None
    slice_id = lease.slice.slice_id
    world.agent.close_slice(slice_id)
    world.agent.unknown = [4711]
    assert end(world, lease).state == "active"
    for _ in range(3):
        world.service.slices.step()
        # Opened again, and still held: somebody is in it.
        assert slice_id in world.agent.opened
        with pytest.raises(NoFreeSlice):
            acquire(world, "alf")
    world.agent.bound[slice_id].clear()
    world.service.slices.step()
    assert acquire(world, "alf", milli_gpu=1000).state == "granted"


def test_a_living_slice_that_its_agent_lost_is_opened_again_as_one_that_is_used(
    world: ServiceWorld,
) -> None:
    lease = acquire(world)
    started(world, lease)
    assert lease.slice is not None
    world.agent.close_slice(lease.slice.slice_id)
    world.agent.unknown = [4711]
    world.service.slices.step()
    assert world.agent.reading(lease.slice.slice_id).pids == (4711,)


def test_a_slice_that_nobody_ever_used_is_empty_though_its_agent_never_had_it(
    world: ServiceWorld,
) -> None:
    lease = acquire(world)
    assert lease.slice is not None
    world.agent.close_slice(lease.slice.slice_id)
    world.agent.unknown = [4711]
    assert end(world, lease).state == "ended"


def test_what_an_agent_that_lost_much_has_found_again_is_closed_when_nobody_holds_it(
    world: ServiceWorld,
) -> None:
    lease = acquire(world)
    started(world, lease)
    assert lease.slice is not None
    world.service.slices.step()
    over = replace(world.agent.opened[lease.slice.slice_id], slice_id=SliceId("over"))
    world.agent.open(over)
    world.service.slices.step()
    # Not ours to close, as far as we know.
    assert "over" in world.agent.opened
    world.agent.memory = "second"
    world.service.slices.step()
    assert list(world.agent.opened) == [lease.slice.slice_id]


def test_minutes_of_the_idle_rule_are_rounded_down_alike(world: ServiceWorld) -> None:
    limits = IdleLimits(idle_after_ms=150_000, warn_after_ms=100_000)
    world.service = replace(world.service, settings=replace(world.service.settings, idle=limits))
    lease = acquire(world)
    (offer, *_) = notebook_offers.offers(world.service, world.principal("ann"), None, "").offers
    assert lease.idle is not None
    assert (lease.idle.idle_after_min, offer.idle_after_min) == (2, 2)
    assert lease.idle.warn_after_min == 1
