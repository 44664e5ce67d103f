"""A parked notebook holds no GPU, keeps its server's memory of the node, and gets its own GPU back."""

from __future__ import annotations

import pytest
from builders import TRAIN, World, a_job, a_node, a_notebook, a_team

from gpucommons.scheduler.core.capacity.capacity import Capacity
from gpucommons.scheduler.core.events.parking import WITHIN_MS
from gpucommons.scheduler.core.model.going_on import KeptKernels
from gpucommons.scheduler.core.model.intents import (
    Cancel,
    NoteKept,
    NoteParked,
    Park,
    ReportIdle,
    SetNodeState,
    Started,
    Unpark,
)
from gpucommons.scheduler.core.model.resources import NodeState
from gpucommons.scheduler.core.model.state import SliceCleared
from gpucommons.scheduler.core.model.types import Millis, NodeId, State, WorkloadId


def a_world(gpus: int = 1, fixed: int = 1000) -> World:
    return World(a_node("n1", gpus), teams=(a_team(fixed_milli_gpu=fixed),))


def a_server(world: World, owner: str = "ann", milli_gpu: int = 1000) -> WorkloadId:
    lease = world.submit(a_notebook(owner, milli_gpu), redeem=True)
    world.ask(Started(workload_id=lease), "hub")
    assert world.state(lease) is State.ACTIVE
    return lease


def park(world: World, lease: WorkloadId, host_mib: int = 2048) -> None:
    """Asked, done by its server, seen by its node."""
    assert world.ask(Park(workload_id=lease)).error is None
    world.ask(NoteParked(workload_id=lease, host_mib=host_mib))
    world.step(SliceCleared(attempt_id=world.attempt_id(lease)))
    assert world.state(lease) is State.PARKED


def unpark(world: World, lease: WorkloadId) -> State:
    assert world.ask(Unpark(workload_id=lease)).error is None
    return world.state(lease)


def memory_held(world: World, node: str = "n1") -> int:
    cluster = world.cluster
    of = Capacity.of(cluster.nodes.values(), cluster.workloads.values(), cluster.blocks)
    return of.nodes[NodeId(node)].held.memory_mib


def test_its_gpu_is_anothers_and_its_own_slice_comes_back_on_its_turn() -> None:
    world = a_world()
    first = a_server(world)
    before = world.get(first).current
    assert before is not None
    park(world, first)
    assert [one.parked for one in world.get(first).attempts] == [True]
    second = a_server(world, "bob")
    assert unpark(world, first) is State.WAITING
    world.now = Millis(world.now + 5)
    world.ask(Cancel(workload_id=second, why="stopped"), "hub")
    world.end(second)
    again = world.get(first).current
    assert world.state(first) is State.ACTIVE
    assert again is not None
    assert again.attempt_id != before.attempt_id
    assert again.placements[0].slice_id == before.placements[0].slice_id
    assert world.get(first).parked is None
    assert [one.parked for one in world.get(first).attempts] == [True, False]


def test_until_its_node_sees_it_gone_the_gpu_is_its_own() -> None:
    world = a_world()
    first = a_server(world)
    world.ask(Park(workload_id=first))
    assert world.try_submit(a_notebook("bob", 1000), redeem=True).error == "NoFreeSlice"
    world.ask(NoteParked(workload_id=first))
    assert world.state(first) is State.PARKING
    assert world.try_submit(a_notebook("bob", 1000), redeem=True).error == "NoFreeSlice"
    world.step(SliceCleared(attempt_id=world.attempt_id(first)))
    assert world.try_submit(a_notebook("bob", 1000), redeem=True).error is None


def test_what_its_node_sees_before_its_server_has_said_so_frees_nothing() -> None:
    world = a_world()
    first = a_server(world)
    world.step(SliceCleared(attempt_id=world.attempt_id(first)))
    assert world.state(first) is State.ACTIVE
    world.ask(Park(workload_id=first))
    world.step(SliceCleared(attempt_id=world.attempt_id(first)))
    assert world.state(first) is State.PARKING


def test_a_server_that_says_that_it_took_all_memory_of_its_node_keeps_nobody_out() -> None:
    world = a_world(gpus=2, fixed=2000)
    first = a_server(world)
    park(world, first, host_mib=1 << 30)
    (device, _) = world.cluster.nodes[NodeId("n1")].devices
    place = world.get(first).parked
    assert place is not None
    assert memory_held(world) <= place.place.memory_mib + device.memory_mib
    a_server(world, "bob")


def test_used_again_before_its_gpu_was_free_it_keeps_it() -> None:
    world = a_world()
    first = a_server(world)
    attempt = world.attempt_id(first)
    world.ask(Park(workload_id=first))
    world.ask(NoteParked(workload_id=first))
    assert unpark(world, first) is State.ACTIVE
    world.step(SliceCleared(attempt_id=attempt))  # what was seen before comes late
    assert world.state(first) is State.ACTIVE
    assert world.attempt_id(first) == attempt


def test_it_waits_behind_who_waited_before_it() -> None:
    world = a_world()
    first = a_server(world)
    park(world, first)
    a_server(world, "bob")
    ticket = world.submit(a_notebook("cyd", 1000))
    world.now = Millis(world.now + 10)
    unpark(world, first)
    held = world.get(first).submitted_ms
    assert held > world.get(ticket).submitted_ms


def test_it_goes_back_to_the_device_that_it_came_from_or_says_why_it_waits() -> None:
    world = a_world(gpus=2, fixed=2000)
    first = a_server(world)
    park(world, first)
    place = world.get(first).parked
    assert place is not None
    # Another one takes that very GPU; the other one is free.
    others = [a_server(world, "bob")]
    other = world.get(others[0]).current
    assert other is not None
    if other.placements[0].device_ids != place.place.device_ids:
        others.append(a_server(world, "cyd"))
        world.ask(Cancel(workload_id=others[0], why="stopped"), "hub")
        world.end(others[0])
    assert unpark(world, first) is State.WAITING
    reason = world.get(first).reason
    assert reason is not None
    assert reason.text == "Its memory goes back to GPU 0 of n1, which another notebook has."


def test_while_it_is_parked_its_server_still_has_its_memory_of_the_node() -> None:
    world = a_world()
    first = a_server(world)
    held = memory_held(world)
    park(world, first, host_mib=2048)
    assert memory_held(world) == held + 2048
    unpark(world, first)
    assert memory_held(world) == held


def test_parked_notebooks_count_nothing_against_their_teams_quota() -> None:
    world = a_world(gpus=1)
    first = a_server(world)
    park(world, first)
    assert world.cluster.workloads[first].current is None
    job = world.submit(a_job("digits-1", 1000))
    assert world.state(job) is State.STARTING  # lent as any idle quota is


def test_a_server_that_cannot_keeps_its_gpu_and_the_reason_is_known_until_it_is_used() -> None:
    world = a_world()
    first = a_server(world)
    world.ask(Park(workload_id=first))
    world.ask(NoteParked(workload_id=first, because="its server says: It uses managed memory."))
    lease = world.get(first)
    assert lease.state is State.ACTIVE
    assert lease.idleness is not None
    assert lease.idleness.not_parked == "its server says: It uses managed memory."
    world.ask(ReportIdle(workload_id=first, idle_since_ms=None, returns_ms=None))
    found = world.get(first).idleness
    assert found is not None
    assert found.not_parked == ""


@pytest.mark.parametrize("said", [False, True])
def test_nobody_waits_for_ever_for_a_server_or_its_node(said: bool) -> None:
    world = a_world()
    first = a_server(world)
    world.ask(Park(workload_id=first))
    if said:
        world.ask(NoteParked(workload_id=first))
    assert world.outcome.wake_ms is not None
    world.wait(WITHIN_MS)
    lease = world.get(first)
    assert lease.state is State.ACTIVE
    assert lease.parked is None
    assert lease.idleness is not None
    assert lease.idleness.not_parked


def test_who_interrupts_the_cell_stays_parked_and_leaves_the_line() -> None:
    world = a_world()
    first = a_server(world)
    park(world, first)
    a_server(world, "bob")
    assert unpark(world, first) is State.WAITING
    world.ask(Unpark(workload_id=first, waits=False))
    assert world.state(first) is State.PARKED
    assert unpark(world, first) is State.WAITING
    world.ask(Cancel(workload_id=first, why="left"))
    assert world.state(first) is State.PARKED


@pytest.mark.parametrize("waits", [False, True])
def test_its_server_stops_while_it_is_parked(waits: bool) -> None:
    world = a_world()
    first = a_server(world)
    park(world, first)
    a_server(world, "bob")
    if waits:
        unpark(world, first)
    world.ask(Cancel(workload_id=first, why="stopped"), "hub")
    assert world.state(first) is State.ENDED
    assert memory_held(world) == 1024  # of bob's


def test_what_its_server_saved_when_it_stopped_makes_it_hibernated() -> None:
    world = a_world()
    first = a_server(world)
    park(world, first)
    kept = KeptKernels(
        kernels=1, kernel_bytes=1, variables=0, variable_bytes=0, variables_lost=0, until_ms=1
    )
    world.ask(NoteKept(workload_id=first, kept=kept))
    world.ask(Cancel(workload_id=first, why="stopped"), "hub")
    assert world.state(first) is State.HIBERNATED


def test_what_was_parked_on_a_fenced_node_ends_and_says_so() -> None:
    world = a_world()
    first = a_server(world)
    park(world, first)
    world.ask(SetNodeState(node_id=NodeId("n1"), state=NodeState.FENCED))
    lease = world.get(first)
    assert lease.state is State.ENDED
    assert lease.ended_text == "Its node n1 was lost and fenced, and with it what was parked there"


def test_a_server_that_starts_anew_takes_the_place_of_what_was_parked() -> None:
    world = a_world()
    first = a_server(world)
    park(world, first)
    verdict = world.try_submit(a_notebook("ann", 1000))
    assert verdict.text.startswith("This server runs, and is parked")
    second = a_server(world)
    assert second != first
    assert world.state(first) is State.ENDED


def test_only_what_runs_is_parked() -> None:
    world = a_world()
    ticket = world.submit(a_notebook("ann", 1000))
    verdict = world.ask(Park(workload_id=ticket))
    assert verdict.text == "This notebook is starting: only a running one is parked."
    assert TRAIN in world.cluster.pools
