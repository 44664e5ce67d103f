"""Children of one sweep, map or pipeline stand in line as one: nobody waits behind all of them."""

from __future__ import annotations

import pytest
from builders import World, a_job, a_node, a_team

from gpucommons.scheduler.core.model.types import Spec, State, WorkloadId
from gpucommons.scheduler.core.queue.ordering import places
from gpucommons.scheduler.parents import Parent, ParentId, ParentKind


@pytest.fixture(params=[0, 4000], ids=["borrowed", "guaranteed"])
def world(request: pytest.FixtureRequest) -> World:
    """A team with four GPUs, its own or borrowed."""
    return World(a_node(gpus=4), teams=[a_team(guaranteed_milli_gpu=request.param)])


def child(number: int, parent: str = "p-1", **changes: object) -> Spec:
    part_of = Parent(
        parent_id=ParentId(parent), kind=ParentKind.MAP, name="digits-map", number=number
    )
    return a_job(f"child-{parent}-{number}", part_of=part_of, **changes)


def running(world: World, jobs: list[WorkloadId]) -> list[bool]:
    return [world.state(one) is State.STARTING for one in jobs]


def test_a_job_that_came_later_waits_for_one_of_a_parents_children_and_not_for_all(
    world: World,
) -> None:
    blocker = world.run(a_job("blocker", 4000))
    children = [world.submit(child(number)) for number in range(1, 7)]
    world.wait(1)
    later = [world.submit(a_job(f"later-{number}")) for number in range(2)]
    world.wait(1)
    found = places(world.cluster.workloads)
    assert [found[one] for one in [children[0], *later, *children[1:]]] == list(range(1, 9))

    world.end(blocker)

    assert running(world, later) == [True, True]
    assert running(world, children) == [True, True, False, False, False, False]


def test_two_parents_take_turns_and_what_they_have_counts(world: World) -> None:
    first = [world.submit(child(number, "p-1")) for number in range(6)]
    assert running(world, first) == [True] * 4 + [False] * 2
    world.wait(1)
    second = [world.submit(child(number, "p-2")) for number in range(6)]
    for ended in range(2):
        world.end(first[ended])

    # Each has two: the other's next turn is that of who came first.
    assert running(world, second) == [True, True] + [False] * 4
    assert running(world, first) == [False, False, True, True, False, False]


def test_priority_goes_before_turns(world: World) -> None:
    blocker = world.run(a_job("blocker", 4000))
    low = world.submit(a_job("low", priority="low"))
    children = [world.submit(child(number)) for number in range(4)]
    world.end(blocker)

    assert running(world, [*children, low]) == [True] * 4 + [False]
