"""One step that stands for hours starts nothing before it might have begun."""

from __future__ import annotations

from itertools import pairwise

from builders import T0, World, a_job, a_node, a_pool, a_team
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucommons.scheduler.core.model.intents import Cancel
from gpucommons.scheduler.core.model.types import AttemptState, Millis, Spec, TeamName, WorkloadId
from gpucommons.scheduler.simulation.conditions import Conditions
from gpucommons.scheduler.simulation.engine import Simulation

MINUTE = 60_000
HOUR = 60 * MINUTE
LATER = Millis(T0 + 4 * HOUR)


def machines(count: int = 2, *, guaranteed: int | None = None) -> World:
    """Nodes of one GPU each; what is not guaranteed to the first team is to the other."""
    guaranteed = count if guaranteed is None else guaranteed
    nodes = [a_node(f"n{number}", 1) for number in range(1, count + 1)]
    teams = [
        a_team("vision", guaranteed_milli_gpu=guaranteed * 1000),
        a_team("nlp", guaranteed_milli_gpu=(count - guaranteed) * 1000),
    ]
    return World(*nodes, teams=teams, pools=[a_pool(notice_ms=0)])


def begun_in_one_step(simulation: Simulation, workload_id: WorkloadId) -> int:
    """Minutes after the start, by one step of four hours."""
    simulation.step(LATER)
    assert workload_id in simulation.cluster.workloads
    return (simulation.vacated.begun[workload_id] - T0) // MINUTE


def two_that_end(world: World) -> tuple[Simulation, WorkloadId]:
    """One ends after an hour, and the other, on the first node, after a minute."""
    simulation = Simulation(world.cluster, now_ms=world.now)
    simulation.submit(T0, a_job("c"), MINUTE)
    simulation.step(T0)
    first = simulation.submit(T0, a_job("a"), HOUR)
    simulation.step(T0)
    return simulation, first


def third(simulation: Simulation, spec: Spec) -> WorkloadId:
    """It waits for both, for ten hours of work."""
    found = simulation.submit(T0, spec, 10 * HOUR)
    simulation.step(T0)
    return found


def test_what_waits_for_a_device_alone_began_when_it_was_left() -> None:
    simulation, _ = two_that_end(machines())
    assert begun_in_one_step(simulation, third(simulation, a_job("b"))) == 1


def test_what_runs_after_another_began_when_that_ended() -> None:
    simulation, first = two_that_end(machines())
    assert begun_in_one_step(simulation, third(simulation, a_job("b", after=(first,)))) == 60


def test_so_it_is_where_a_device_was_free_all_the_time() -> None:
    simulation, first = two_that_end(machines(3))
    assert begun_in_one_step(simulation, third(simulation, a_job("b", after=(first,)))) == 60


def test_what_runs_after_one_that_is_cancelled_in_line_does_not_begin_before() -> None:
    simulation, _ = two_that_end(machines())
    never = third(simulation, a_job("never", 5000))
    waits = third(simulation, a_job("b", after=(never,), after_any=(never,)))
    simulation.at(T0 + 2 * HOUR, Cancel(workload_id=never))
    assert begun_in_one_step(simulation, waits) >= 120


def test_what_may_not_start_yet_began_when_its_time_came() -> None:
    simulation, _ = two_that_end(machines())
    waits = third(simulation, a_job("b", not_before_ms=Millis(T0 + 30 * MINUTE)))
    assert begun_in_one_step(simulation, waits) == 30


def test_a_job_that_is_stopped_in_the_step_does_not_run_twice() -> None:
    world = machines(guaranteed=1)
    simulation = Simulation(
        world.cluster, now_ms=world.now, conditions=Conditions(leave_ms=30 * MINUTE)
    )
    simulation.submit(T0, a_job("own", priority="high"), MINUTE)
    simulation.step(T0)
    borrower = simulation.submit(T0, a_job("borrowed"), 10 * HOUR)
    simulation.step(T0)
    simulation.step(T0)
    owner = simulation.submit(T0, a_job("theirs", team=TeamName("nlp")), 10 * HOUR)
    while (held := simulation.cluster.workloads[borrower].current) is not None:
        if held.state is AttemptState.STOPPING:
            break
        simulation.step(simulation.next_ms() or T0)
    left_ms = simulation.now_ms + 30 * MINUTE

    simulation.step(LATER)

    attempts = simulation.cluster.workloads[borrower].attempts
    assert len(attempts) == 2
    assert simulation.vacated.begun[borrower] == left_ms
    assert owner in simulation.vacated.begun


@settings(max_examples=40, deadline=None)
@given(
    asks=st.lists(
        st.tuples(
            st.integers(0, 300), st.sampled_from([500, 1000]), st.integers(1, 200), st.booleans()
        ),
        min_size=1,
        max_size=12,
    ),
    hours=st.sampled_from([0, 1, 4]),
)
def test_no_more_gpus_are_held_than_there_are_and_each_job_begins_after_the_one_before_it(
    asks: list[tuple[int, int, int, bool]], hours: int
) -> None:
    simulation = Simulation(machines().cluster, now_ms=Millis(T0))
    jobs: list[WorkloadId] = []
    for number, (at, milli_gpu, minutes, follows) in enumerate(sorted(asks)):
        after = (jobs[-1],) if jobs and follows else ()
        spec = a_job(f"j-{number}", milli_gpu, after=after)
        jobs.append(simulation.submit(T0 + at * MINUTE, spec, minutes * MINUTE))
    while (next_ms := simulation.next_ms()) is not None:
        simulation.step(Millis(next_ms + hours * HOUR))

    level = 0
    for _, _, change in sorted(simulation.record.levels, key=lambda one: (one[0], one[2])):
        level += change
        assert 0 <= level <= 2000
    stories = [simulation.record.stories[one] for one in jobs]
    for (before, story), (_, _, _, follows) in zip(
        pairwise(stories), sorted(asks)[1:], strict=True
    ):
        if follows:
            assert before.started_ms is not None
            assert before.run_ms is not None
            assert story.started_ms is not None
            assert story.started_ms >= before.started_ms + before.run_ms
