"""A notebook's memory limit, changed by an admin while it is in use."""

from __future__ import annotations

import pytest
from service_world import ServiceWorld, done

from gpucommons.gpu.slices.memory_of_share import share_memory_mib
from gpucommons.scheduler import models
from gpucommons.scheduler.errors import (
    BadRequest,
    Conflict,
    InvalidTransition,
    Misconfigured,
    NoFreeSlice,
)
from gpucommons.scheduler.service import leases
from gpucommons.scheduler.service.in_memory.slices import Slices

SHARE_MIB = (40960 - 1228) // 2


@pytest.fixture
def lease(world: ServiceWorld) -> models.LeaseView:
    request = models.LeaseRequest(user="ann", milli_gpu=500)
    taken: models.LeaseView = done(
        leases.acquire(world.service, world.hub_service, request, key=None)
    )
    done(leases.started(world.service, world.hub_service, taken.id, models.StartedReport(pid=7)))
    return taken


def resize(world: ServiceWorld, lease: models.LeaseView, memory_mib: int) -> models.SliceView:
    request = models.ResizeRequest(memory_mib=memory_mib)
    answer = done(leases.resize(world.service, world.admin, lease.id, request))
    assert answer.slice is not None
    held: models.SliceView = answer.slice
    return held


def at_agent(world: ServiceWorld, lease: models.LeaseView) -> int:
    assert lease.slice is not None
    return world.agent.opened[lease.slice.slice_id].memory_mib  # type: ignore[index]


def test_less_and_its_share_again(world: ServiceWorld, lease: models.LeaseView) -> None:
    assert resize(world, lease, 8000).memory_mib == at_agent(world, lease) == 8000
    assert resize(world, lease, SHARE_MIB).memory_mib == at_agent(world, lease) == SHARE_MIB
    found = world.store.events(kinds=frozenset({"slice-resized"}))
    assert [(one.event.by, one.event.text) for one in found] == [
        ("root", "ann's GPU memory: 19.4 → 7.8 GiB."),
        ("root", "ann's GPU memory: 7.8 → 19.4 GiB."),
    ]


def test_more_is_held_so_that_nobody_else_is_promised_it(
    world: ServiceWorld, lease: models.LeaseView
) -> None:
    assert resize(world, lease, 30_000).memory_mib == at_agent(world, lease) == 30_000
    held = world.cluster.workloads[lease.id].current  # type: ignore[index]
    assert held is not None
    (placement,) = held.placements
    device = next(d for n in world.cluster.nodes.values() for d in n.devices)
    together = placement.milli_gpu + placement.extra_milli
    assert share_memory_mib(device, together) >= 30_000 > share_memory_mib(device, together - 1)
    # What it holds beyond its share ends with the limit.
    resize(world, lease, SHARE_MIB)
    again = world.cluster.workloads[lease.id].current  # type: ignore[index]
    assert again is not None
    assert again.placements[0].extra_milli == 0


def test_less_than_is_in_use_is_refused_with_both_numbers(
    world: ServiceWorld, lease: models.LeaseView
) -> None:
    world.agent.in_use_mib = 9000
    with pytest.raises(Conflict, match=r"uses 9000 MiB, .* as small as 8000 MiB: free memory"):
        resize(world, lease, 8000)
    assert at_agent(world, lease) == SHARE_MIB
    view = leases.lease(world.service, world.admin, lease.id)
    assert view.slice is not None
    assert view.slice.memory_mib == SHARE_MIB


@pytest.mark.parametrize(
    ("memory_mib", "error", "words"),
    [
        (1000, Misconfigured, r"at least 2.0 GiB"),
        (60_000, Conflict, r"it can have at most"),
        (1 << 29, Conflict, r"it can have at most"),
    ],
)
def test_what_the_device_cannot_give_is_refused_with_what_it_can(
    world: ServiceWorld,
    lease: models.LeaseView,
    memory_mib: int,
    error: type[Exception],
    words: str,
) -> None:
    with pytest.raises(error, match=words):
        resize(world, lease, memory_mib)
    assert leases.lease(world.service, world.admin, lease.id).slice == lease.slice


def test_a_whole_gpu_has_all_its_memory(world: ServiceWorld) -> None:
    request = models.LeaseRequest(user="ann", milli_gpu=1000)
    whole = done(leases.acquire(world.service, world.hub_service, request, key=None))
    with pytest.raises((Misconfigured, BadRequest), match="share"):
        resize(world, whole, 8000)


def test_a_lease_that_ended_has_nothing_to_resize(
    world: ServiceWorld, lease: models.LeaseView
) -> None:
    report = models.EndReport(why="stopped")
    done(leases.end_lease(world.service, world.hub_service, lease.id, report))
    world.agent.bound.clear()
    world.service.slices.step()
    world.loop.cycle()
    with pytest.raises(InvalidTransition, match="holds no GPU"):
        resize(world, lease, 8000)


def test_an_agent_that_was_away_hears_of_it_later(
    world: ServiceWorld, lease: models.LeaseView
) -> None:
    resize(world, lease, 30_000)
    assert lease.slice is not None
    slice_id = lease.slice.slice_id
    world.agent.resize(slice_id, SHARE_MIB)  # type: ignore[arg-type] # as if it had not heard
    later = Slices(world.agent, cluster=lambda: world.cluster, observe=world.loop.observe)
    later.step()
    assert at_agent(world, lease) == 30_000


def test_memory_that_another_teams_fixed_quota_needs_is_not_given(
    world: ServiceWorld, lease: models.LeaseView
) -> None:
    (mine,) = world.cluster.workloads[lease.id].attempts[-1].placements  # type: ignore[index]
    block = next(b for b in world.cluster.blocks if mine.device_ids[0] in b.device_ids)
    assert block.team == "vision"
    other = next(b for b in world.cluster.blocks if b.team == "nlp")
    bob = models.LeaseRequest(user="bob", milli_gpu=500)
    theirs = done(leases.acquire(world.service, world.hub_service, bob, key=None))
    assert theirs.slice is not None
    assert theirs.slice.device_ids == list(other.device_ids)
    # All of its card is vision's block or its own: it may have the whole card.
    assert resize(world, lease, 39_000).memory_mib == 39_000
    # A teammate has to wait for that half now: the admin gave it away.
    again = models.LeaseRequest(user="alf", milli_gpu=500)
    with pytest.raises(NoFreeSlice):
        done(leases.acquire(world.service, world.hub_service, again, key=None))
    with pytest.raises(Conflict, match=r"at most 38.8 GiB"):
        resize(world, lease, 40_000)
