"""Who alone is in the way and could give it back; each is tried before it is named."""

from __future__ import annotations

from builders import World, a_job, a_node, a_notebook, a_team

from gpucommons.scheduler.core.explain.blockers import Blocker, BlockerKind
from gpucommons.scheduler.core.model.demand import every_size
from gpucommons.scheduler.core.model.intents import ReportIdle, Started
from gpucommons.scheduler.core.model.types import WorkloadId
from gpucommons.scheduler.core.whatif.counterfactuals import Counterfactual, ways


def a_world() -> World:
    return World(a_node(gpus=1), teams=[a_team(fixed_milli_gpu=1000)])


def opened(world: World, owner: str, milli_gpu: int = 500, *, idle: bool = True) -> WorkloadId:
    name = f"{owner}-{milli_gpu}"
    lease = world.submit(a_notebook(owner, milli_gpu, server_name=name), redeem=True)
    world.ask(Started(workload_id=lease))
    if idle:
        world.ask(ReportIdle(workload_id=lease, idle_since_ms=world.now, returns_ms=None))
    return lease


def found(world: World, waiting: WorkloadId) -> list[Counterfactual]:
    return [
        way
        for way in ways(world.cluster, waiting, world.now, every_size)
        if way.blocker is not None
    ]


def test_the_own_idle_notebook_is_named_before_a_team_mates() -> None:
    world = a_world()
    opened(world, "bob")
    own = opened(world, "ann")
    waits = world.submit(a_notebook("ann", 500, server_name="second"))
    (way,) = found(world, waits)
    assert way.blocker == Blocker(kind=BlockerKind.IDLE_NOTEBOOK, holder=own)
    assert way.text == "Would start now if ann's idle notebook gives back its ½ GPU."


def test_a_team_mates_idle_notebook_is_named_where_no_own_one_is_in_the_way() -> None:
    world = a_world()
    opened(world, "cyd", idle=False)
    idle = opened(world, "bob")
    waits = world.submit(a_notebook("ann", 500))
    (way,) = found(world, waits)
    assert way.blocker == Blocker(kind=BlockerKind.TEAM_NOTEBOOK, holder=idle)


def test_nobody_is_told_to_give_up_what_would_not_help() -> None:
    world = a_world()
    opened(world, "bob", idle=False)
    opened(world, "ann")
    # A whole GPU needs both halves: the own one alone would be given up for nothing.
    assert found(world, world.submit(a_notebook("ann", 1000, server_name="second"))) == []


def test_the_own_job_of_lower_priority_is_named_and_others_are_not() -> None:
    world = World(a_node(gpus=2), teams=[a_team(guaranteed_milli_gpu=2000)])
    world.run(a_job("other-1", owner="bob", priority="low"))
    low = world.run(a_job("low-1", priority="low"))
    waits = world.submit(a_job("digits-1", priority="high"))
    blocker = next((way.blocker for way in found(world, waits)), None)
    nominated = world.get(waits).nomination is not None
    # What preemption takes anyway needs nobody's hand.
    assert nominated or blocker == Blocker(kind=BlockerKind.JOB, holder=low)
