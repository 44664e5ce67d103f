"""The event engine: what goes in comes out once, and every GPU-second is accounted for."""

from __future__ import annotations

from builders import T0, World, a_job, a_node, a_notebook, a_pool, a_team
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucommons.scheduler.core.model.intents import Cancel
from gpucommons.scheduler.core.model.state import NodesObserved
from gpucommons.scheduler.core.model.types import Kind, Millis, State, TeamName
from gpucommons.scheduler.simulation.conditions import Conditions
from gpucommons.scheduler.simulation.engine import Simulation
from gpucommons.scheduler.simulation.record import Right

MINUTE = 60_000
HOUR = 60 * MINUTE
QUICK = Conditions(checkpoint_every_ms=30 * MINUTE, restart_ms=2 * MINUTE)


def two_teams(gpus: int = 4) -> World:
    teams = [
        a_team("vision", guaranteed_milli_gpu=gpus * 500),
        a_team("nlp", guaranteed_milli_gpu=gpus * 500),
    ]
    return World(a_node(gpus=gpus), teams=teams, pools=[a_pool(notice_ms=0)])


def play(world: World, conditions: Conditions = QUICK) -> Simulation:
    return Simulation(world.cluster, now_ms=world.now, conditions=conditions)


def test_a_job_waits_for_the_one_before_it_and_both_end() -> None:
    world = two_teams(1)
    simulation = play(world)
    first = simulation.submit(T0, a_job("a-1"), HOUR)
    second = simulation.submit(T0 + MINUTE, a_job("a-2"), HOUR)

    stories = simulation.run().stories

    assert (stories[first].wait_ms, stories[first].completion_ms) == (0, HOUR)
    assert (stories[second].wait_ms, stories[second].completion_ms) == (59 * MINUTE, 119 * MINUTE)
    assert simulation.next_ms() is None


def test_a_job_that_comes_after_the_one_it_runs_after_has_ended_starts_at_once() -> None:
    simulation = play(two_teams(1))
    first = simulation.submit(T0, a_job("a-1"), MINUTE)
    second = simulation.submit(T0 + HOUR, a_job("a-2", after=(first,)), HOUR)

    stories = simulation.run().stories

    assert (stories[second].wait_ms, stories[second].completion_ms) == (0, HOUR)


def test_starting_and_leaving_take_the_time_they_take() -> None:
    world = two_teams(1)
    simulation = play(world, Conditions(start_ms=5_000))
    first = simulation.submit(T0, a_job("a-1"), HOUR)
    simulation.run()

    story = simulation.record.stories[first]
    assert story.wait_ms == 5_000
    assert story.held_milli_gpu_ms == 1000 * (HOUR + 5_000)


def test_a_borrower_is_stopped_for_a_guarantee_and_does_unsaved_work_again() -> None:
    world = two_teams(2)
    simulation = play(world)
    borrower = simulation.submit(T0, a_job("a-1", 2000), 2 * HOUR)
    owner = simulation.submit(T0 + 40 * MINUTE, a_job("b-1", team=TeamName("nlp")), HOUR)

    record = simulation.run()

    (eviction,) = record.evictions
    assert (eviction.workload_id, eviction.right) == (borrower, Right.GUARANTEE)
    assert eviction.lost_milli_gpu_ms == 2000 * (10 * MINUTE + 1)
    assert record.stories[owner].wait_ms == 1
    again = record.stories[borrower]
    # 30 min were saved; the owner ran an hour; then loading and the other 90 min.
    assert again.completion_ms == (40 + 60 + 2 + 90) * MINUTE + 1
    assert again.lost_milli_gpu_ms == 2000 * ((10 + 2) * MINUTE + 1)
    assert again.held_milli_gpu_ms == 2000 * (2 * HOUR) + again.lost_milli_gpu_ms


def test_notebooks_get_their_servers_and_are_given_back() -> None:
    world = World(a_node(gpus=1), teams=[a_team(fixed_milli_gpu=1000)])
    simulation = play(world)
    first = simulation.submit(T0, a_notebook("ann", 1000, server_name="x"), HOUR)
    second = simulation.submit(T0, a_notebook("bob", 1000, server_name="y"), None)

    stories = simulation.run(until_ms=T0 + 2 * HOUR).stories

    assert stories[first].completion_ms == HOUR
    assert stories[second].wait_ms == HOUR
    assert stories[second].ended_ms is None


def test_a_live_cluster_goes_on_from_where_it_stands() -> None:
    world = two_teams(1)
    running = world.run(a_job("a-1"))
    waiting = world.submit(a_job("a-2"))
    world.wait(10 * MINUTE)
    left = {running: 20 * MINUTE, waiting: HOUR}
    simulation = Simulation(world.cluster, now_ms=world.now, conditions=QUICK, left_ms=left)

    stories = simulation.run().stories

    assert stories[running].ended_ms == world.now + 20 * MINUTE
    assert stories[waiting].started_ms == world.now + 20 * MINUTE
    assert stories[waiting].completion_ms == 90 * MINUTE
    assert stories[running].held_milli_gpu_ms == 1000 * 30 * MINUTE


def test_what_is_not_known_to_end_runs_on() -> None:
    world = two_teams(1)
    running = world.run(a_job("a-1"))
    simulation = Simulation(world.cluster, now_ms=world.now)

    simulation.run(until_ms=T0 + 1000 * HOUR)

    assert simulation.record.stories[running].ended_ms is None
    assert simulation.cluster.workloads[running].state is State.RUNNING


def test_people_and_nodes_may_change_their_minds() -> None:
    world = two_teams(1)
    simulation = play(world)
    first = simulation.submit(T0, a_job("a-1"), HOUR)
    second = simulation.submit(T0, a_job("a-2"), HOUR)
    simulation.at(T0 + MINUTE, Cancel(workload_id=first))
    more = (a_node(gpus=1), a_node("n2", gpus=1))
    simulation.at(T0 + 30_000, NodesObserved(executor="fake", nodes=more))

    stories = simulation.run().stories

    assert stories[first].completion_ms == MINUTE
    assert stories[second].wait_ms == 30_000


def test_an_elastic_job_on_half_its_workers_takes_twice_as_long() -> None:
    world = two_teams(2)
    simulation = play(world)
    spec = a_job("a-1", workers=4, min_workers=1, max_workers=4)

    job = simulation.submit(T0, spec, HOUR)

    assert simulation.run().stories[job].completion_ms == 2 * HOUR


def test_enough_is_enough() -> None:
    world = two_teams(1)
    simulation = play(world)
    jobs = [simulation.submit(T0, a_job(f"a-{i}"), HOUR) for i in range(5)]

    simulation.run(enough=lambda now: now.record.stories[jobs[1]].started_ms is not None)

    assert simulation.record.stories[jobs[2]].started_ms is None


ASKS = st.lists(
    st.tuples(
        st.integers(0, 300), st.sampled_from([500, 1000, 2000, 3000]), st.integers(1, 200),
        st.sampled_from(["vision", "nlp"]), st.sampled_from(["low", "normal", "high"]),
    ),
    min_size=1, max_size=15,
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(asks=ASKS, start_ms=st.sampled_from([0, 3_000]), leave_ms=st.sampled_from([0, 7_000]))
def test_every_job_ends_once_and_gpu_time_adds_up(
    asks: list[tuple[int, int, int, str, str]], start_ms: int, leave_ms: int
) -> None:
    world = two_teams(4)
    conditions = Conditions(start_ms=start_ms, leave_ms=leave_ms)
    simulation = play(world, conditions)
    for i, (at, milli, minutes, team, priority) in enumerate(asks):
        spec = a_job(f"j-{i}", milli, team=TeamName(team), priority=priority, kind=Kind.TRAINING)
        simulation.submit(T0 + at * MINUTE, spec, minutes * MINUTE)

    record = simulation.run()

    assert len(record.stories) == len(asks)
    assert not simulation.cluster.workloads
    for story in record.stories.values():
        assert story.ended_ms is not None
        assert story.run_ms is not None
        useful = story.milli_gpu * story.run_ms
        moving = story.held_milli_gpu_ms - useful - story.lost_milli_gpu_ms
        assert story.attempts == story.evictions + 1
        assert 0 <= moving <= story.milli_gpu * story.attempts * start_ms
    end = Millis(max(at for at, _, _ in record.levels))
    total = sum(story.held_milli_gpu_ms for story in record.stories.values())
    assert record.held(T0, end) == total
    assert record.held(T0, end, TeamName("nlp")) <= total
    assert max(_levels(record.levels)) <= 4000


def _levels(changes: list[tuple[Millis, TeamName, int]]) -> list[int]:
    level, found = 0, []
    at_once: dict[int, int] = {}
    for at_ms, _, change in changes:
        at_once[at_ms] = at_once.get(at_ms, 0) + change
    for change in at_once.values():
        level += change
        found.append(level)
    return found
