"""Places in line go by time in line: nobody keeps one for a job that could not have started."""

from __future__ import annotations

import pytest
from builders import World, a_job, a_node, a_pool, a_team

from gpucommons.scheduler.core.model.intents import Pause, Resume
from gpucommons.scheduler.core.model.types import Millis, State, WorkloadId
from gpucommons.scheduler.core.queue.ordering import places

HOUR = 3_600_000


@pytest.fixture(params=["goes on", "begins anew"])
def scheduler(request: pytest.FixtureRequest) -> str:
    """Whether the scheduler was restarted before it decides."""
    return str(request.param)


@pytest.fixture
def world() -> World:
    """A team with one GPU."""
    return World(a_node(gpus=1), teams=[a_team(guaranteed_milli_gpu=1000)])


def in_turn(world: World, scheduler: str, running: WorkloadId, *waiting: WorkloadId) -> None:
    """They have the GPU one after the other, and were told so before."""
    told = places(world.cluster.workloads)
    assert [told[one] for one in waiting] == list(range(1, len(waiting) + 1))
    for one in waiting:
        if scheduler == "begins anew":
            world.cluster = world.cluster.apart()
        world.end(running)
        assert world.state(one) is State.STARTING
        running = one


def test_a_job_for_later_is_in_line_from_then_on(world: World, scheduler: str) -> None:
    running = world.run(a_job("runs"))
    later = world.submit(a_job("later", not_before_ms=Millis(world.now + HOUR)))
    world.wait(HOUR - 1)
    waits = world.submit(a_job("waits"))
    world.wait(1)
    after_it = world.submit(a_job("after-it"))
    in_turn(world, scheduler, running, waits, later, after_it)


def test_a_paused_job_is_in_line_from_its_resuming_on(world: World, scheduler: str) -> None:
    running = world.run(a_job("runs"))
    paused = world.submit(a_job("paused"))
    world.ask(Pause(workload_id=paused))
    world.wait(HOUR)
    waits = world.submit(a_job("waits"))
    world.wait(1)
    world.ask(Resume(workload_id=paused))
    in_turn(world, scheduler, running, waits, paused)


def test_a_job_after_others_is_in_line_from_the_end_of_the_last(
    world: World, scheduler: str
) -> None:
    first = world.run(a_job("first"))
    second = world.submit(a_job("second"))
    world.wait(1)
    dependent = world.submit(a_job("dependent", after=(first, second)))
    world.wait(HOUR)
    waits = world.submit(a_job("waits"))
    world.wait(1)
    world.end(first)
    world.start(second)
    assert dependent not in places(world.cluster.workloads)
    world.wait(1)
    world.end(second)
    in_turn(world, scheduler, waits, dependent)


def test_an_end_that_came_before_the_submit_costs_no_age(world: World, scheduler: str) -> None:
    first = world.run(a_job("first"))
    running = world.submit(a_job("runs"))
    world.submit(a_job("keeps-the-first-known", after=(first, running)))
    world.end(first)
    world.start(running)
    world.wait(HOUR)
    dependent = world.submit(a_job("dependent", after=(first,)))
    waits = world.submit(a_job("waits"))
    world.wait(1)
    in_turn(world, scheduler, running, dependent, waits)


def test_who_is_stopped_for_others_keeps_its_place(scheduler: str) -> None:
    world = World(
        a_node(gpus=1), teams=[a_team("vision", guaranteed_milli_gpu=1000), a_team("nlp")]
    )
    borrower = world.run(a_job("borrower", team="nlp"))
    world.wait(HOUR)
    waits = world.submit(a_job("waits", team="nlp"))
    owner = world.submit(a_job("owner"))
    world.wait(60_000)
    world.end(borrower, 143)
    world.start(owner)
    in_turn(world, scheduler, owner, borrower, waits)


def test_time_before_its_turn_could_come_gives_no_claim_to_a_share(scheduler: str) -> None:
    pool = a_pool(half_life_ms=HOUR)
    world = World(a_node(gpus=2), teams=[a_team("nlp"), a_team("vision")], pools=[pool])
    borrowers = [world.run(a_job(f"borrower-{i}", team="nlp")) for i in range(2)]
    later = world.submit(a_job("later", not_before_ms=Millis(world.now + HOUR)))
    world.wait(HOUR)
    if scheduler == "begins anew":
        world.cluster = world.cluster.apart()
    world.wait(1)
    assert [world.stop_of(one) for one in borrowers] == [None, None]
    world.wait(HOUR)
    assert world.state(later) is State.NOMINATED
