"""Parking as people, the culler, a notebook's server and its node see it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from service_world import ServiceWorld, done

from gpucommons.gpu.errors import AgentUnavailable
from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import WorkloadId
from gpucommons.scheduler.errors import Forbidden, InvalidTransition, NoFreeSlice, PolicyRefused
from gpucommons.scheduler.executors.base import Bound
from gpucommons.scheduler.service import idle, leases, parking


def allow_parking(world: ServiceWorld) -> None:
    pools = world.loop.cluster.pools
    pools["gpu"] = replace(pools["gpu"], on_idle=("hibernate", "park", "cull"))


def a_server(world: ServiceWorld, user: str = "ann", *, parks: bool = True) -> models.LeaseView:
    allow_parking(world)
    request = models.LeaseRequest(user=user, milli_gpu=1000)
    lease = done(leases.acquire(world.service, world.hub_service, request, key=None))
    done(leases.started(world.service, world.hub_service, lease.id, models.StartedReport(pid=77)))
    told = models.ActivityReport(parks=parks)
    idle.report_activity(world.service, world.principal(user), lease.id, told)
    return leases.lease(world.service, world.principal(user), lease.id)


def in_a_pod(world: ServiceWorld, bound: Bound | None) -> models.LeaseView:
    """A running notebook of a pool of a cluster, which says this of its devices."""
    lease = a_server(world)
    pools = world.loop.cluster.pools
    pools["gpu"] = replace(pools["gpu"], executor="kubernetes")
    world.service.slices._bound_to = lambda _placement: bound
    told = models.ActivityReport(parks=True)
    return idle.report_activity(world.service, world.principal("ann"), lease.id, told)


def ask(world: ServiceWorld, lease: models.LeaseView) -> models.LeaseView:
    text = models.ParkRequest(text="idle for 60 min")
    return done(parking.park(world.service, world.culler, lease.id, text))


def say(world: ServiceWorld, lease: models.LeaseView, because: str = "") -> models.LeaseView:
    report = models.ParkedReport(because=because, host_mib=512)
    return done(parking.report_parked(world.service, world.principal("ann"), lease.id, report))


def unpark(world: ServiceWorld, lease: models.LeaseView, *, waits: bool = True) -> models.LeaseView:
    request = models.UnparkRequest(waits=waits)
    return done(parking.unpark(world.service, world.principal("ann"), lease.id, request))


def test_a_parked_notebook_gives_its_gpu_to_another_and_waits_to_have_it_back(
    world: ServiceWorld,
) -> None:
    lease = a_server(world)
    assert lease.slice is not None
    assert lease.idle is not None
    # That it could be parked is no choice of its own, and its user may have it at any time.
    assert (lease.idle.parks, lease.idle.can_park) == (False, True)
    assert ask(world, lease).state == "parking"
    told = say(world, lease)
    assert (told.state, told.slice) == ("parked", None)
    assert told.idle is None or not told.idle.can_park
    assert told.parked_ms == world.now_ms
    other = a_server(world, "ada")
    waits = unpark(world, lease)
    assert (waits.state, waits.position) == ("waiting", 1)
    assert waits.parked_ms == world.now_ms
    assert unpark(world, lease, waits=False).state == "parked"
    assert unpark(world, lease).state == "waiting"
    world.agent.bound.clear()
    end = models.EndReport(why="stopped")
    done(leases.end_lease(world.service, world.hub_service, other.id, end))
    again = unpark(world, lease)
    assert again.state == "active"
    assert again.slice is not None
    assert again.slice.slice_id == lease.slice.slice_id
    assert again.slice.slice_id not in world.agent.parked


def test_its_gpu_is_not_free_before_its_node_has_seen_it(world: ServiceWorld) -> None:
    lease = a_server(world)
    ask(world, lease)
    world.agent.on_devices = (77,)
    assert say(world, lease).state == "parking"
    with pytest.raises(NoFreeSlice):
        a_server(world, "ada")
    world.agent.on_devices = ()
    world.service.slices.step()
    assert leases.lease(world.service, world.principal("ann"), lease.id).state == "parked"


def test_a_node_that_does_not_answer_frees_nothing(world: ServiceWorld) -> None:
    lease = a_server(world)
    ask(world, lease)
    world.agent.away = AgentUnavailable("away")
    assert say(world, lease).state == "parking"


def test_a_scheduler_that_restarts_keeps_the_slice_that_a_parked_server_lives_in(
    world: ServiceWorld,
) -> None:
    lease = a_server(world)
    assert lease.slice is not None
    ask(world, lease)
    say(world, lease)
    world.service.slices.forget()
    world.service.slices.step()
    assert lease.slice.slice_id in world.agent.opened
    # Nothing of it is alive any more: the hub is asked, and it ends.
    found = world.loop.cluster.workloads[WorkloadId(lease.id)]
    assert not world.service.slices.is_empty(found)
    world.agent.bound.clear()
    assert world.service.slices.is_empty(found)


def test_why_it_was_not_parked_is_told_as_its_servers_word(world: ServiceWorld) -> None:
    lease = a_server(world)
    ask(world, lease)
    told = say(world, lease, because="It uses managed memory.")
    assert told.state == "active"
    assert told.idle is not None
    assert told.idle.not_parked == "its server says: It uses managed memory."


def all_simulated(world: ServiceWorld, simulated: bool) -> None:
    nodes = world.loop.cluster.nodes
    for name, node in list(nodes.items()):
        devices = tuple(replace(one, simulated=simulated) for one in node.devices)
        nodes[name] = replace(node, devices=devices)


@pytest.mark.parametrize(
    ("keeps", "says"),
    [
        ("kernels", "Hibernate it instead: its kernels are saved"),
        ("variables", "Release its GPU instead: variables"),
        ("nothing", "nothing of its kernels is kept"),
        (None, "not known yet: ask again in a minute"),
    ],
)
def test_only_a_server_that_said_that_it_can_is_asked_and_else_what_is_possible_is_said(
    world: ServiceWorld, keeps: models.Keeps | None, says: str
) -> None:
    lease = a_server(world, parks=False)
    all_simulated(world, False)
    told = models.ActivityReport(keeps=keeps)
    idle.report_activity(world.service, world.principal("ann"), lease.id, told)

    with pytest.raises(InvalidTransition, match=f"driver 570 or newer .*{says}"):
        ask(world, lease)


def test_of_a_simulated_gpu_nobody_is_sent_to_look_for_a_driver(world: ServiceWorld) -> None:
    lease = a_server(world, parks=False)
    all_simulated(world, True)

    with pytest.raises(InvalidTransition, match=r"Its GPU is simulated, .*not known yet"):
        ask(world, lease)


@pytest.mark.parametrize(
    ("bound", "says"),
    [
        (Bound(not_parked="The device plugin has it."), "parked. The device plugin has it. Hib"),
        (None, "not certain now which GPU it has"),
    ],
)
def test_what_the_cluster_would_give_to_nobody_else_is_refused_with_its_sentence(
    world: ServiceWorld, bound: Bound | None, says: str
) -> None:
    lease = in_a_pod(world, bound)
    assert lease.idle is not None
    assert not lease.idle.can_park
    with pytest.raises(InvalidTransition, match=says):
        ask(world, lease)


def test_a_pod_whose_card_is_ours_to_give_is_parked(world: ServiceWorld) -> None:
    lease = in_a_pod(world, Bound(visible_devices=("GPU-a",)))
    assert lease.idle is not None
    assert lease.idle.can_park
    assert ask(world, lease).state == "parking"


def test_where_no_node_agent_could_see_its_gpu_free_no_pod_is_parked(world: ServiceWorld) -> None:
    lease = in_a_pod(world, Bound(visible_devices=("GPU-a",)))
    world.service.slices._agent = None
    with pytest.raises(InvalidTransition, match="No node agent runs in this cluster"):
        ask(world, lease)


def test_nobody_is_parked_where_the_pool_does_not_allow_it(world: ServiceWorld) -> None:
    lease = a_server(world)
    pools = world.loop.cluster.pools
    pools["gpu"] = replace(pools["gpu"], on_idle=("hibernate", "cull"))
    seen = leases.lease(world.service, world.principal("ann"), lease.id)
    assert seen.idle is not None
    assert not seen.idle.can_park
    with pytest.raises(PolicyRefused, match="does not allow park for idle notebooks"):
        done(parking.park(world.service, world.principal("ann"), lease.id, models.ParkRequest()))


def test_its_owner_cannot_end_it_as_a_ticket_while_its_server_lives(world: ServiceWorld) -> None:
    lease = a_server(world)
    ask(world, lease)
    say(world, lease)
    a_server(world, "ada")
    unpark(world, lease)
    ann = world.principal("ann")
    with pytest.raises(Forbidden):
        leases.end_lease(world.service, ann, lease.id, models.EndReport(why="stopped"))
    left = done(leases.end_lease(world.service, ann, lease.id, models.EndReport(why="left")))
    assert left.state == "parked"
