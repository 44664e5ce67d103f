"""Who has had more than is due leaves a place to whose turn it is, and only that place."""

from __future__ import annotations

from builders import World, a_job, a_node, a_pool, a_team

from gpucommons.scheduler.core.model.intents import Cancel, PutTeams
from gpucommons.scheduler.core.model.state import NodesObserved
from gpucommons.scheduler.core.model.types import Spec, State, TeamName, WorkloadId

HOUR = 3_600_000
A, B, C = (TeamName(name) for name in "abc")


def a_remnant(
    larger: int = 4000, behind: int = 0, **pool: int
) -> tuple[World, WorkloadId, WorkloadId]:
    """Team a had a node for a day, c has half of it; b waits for all, a for the GPU that is free."""
    world = World(
        a_node("n0"),
        teams=[a_team(name) for name in "abc"],
        pools=[a_pool(moved_permille=0, **pool)],
    )
    jobs = [world.run(a_job(f"a-{i}", team=A)) for i in range(4)]
    world.wait(24 * HOUR)
    world.end(jobs[0])
    world.end(jobs[1])
    world.run(a_job("c-1", 2000, team=C))
    waiting = world.submit(a_job("b-1", larger, team=B))
    for i in range(behind):
        world.submit(a_job(f"b-behind-{i}", larger, team=B))
    small = world.submit(a_job("a-9", team=A))
    for _ in range(8):
        world.wait(HOUR // 2)
    assert {world.state(waiting), world.state(small)} == {State.QUEUED}
    world.end(jobs[2])
    return world, waiting, small


def test_what_is_free_of_a_place_is_left_to_the_team_whose_turn_it_is() -> None:
    world, waiting, small = a_remnant()
    assert {world.state(waiting), world.state(small)} == {State.QUEUED}
    reason = world.get(small).reason
    assert reason is not None
    assert reason.text == (
        "a has had more than its share of train; a place is kept for b,"
        " for 60 s each time that more of it is free."
    )
    assert reason.startable_milli_gpu is None
    assert world.step().changes.empty


def test_who_is_not_ahead_starts_in_the_place_of_another() -> None:
    world, waiting, _ = a_remnant()
    other = world.submit(a_job("c-2", team=C))
    assert world.state(waiting) is State.QUEUED
    assert world.state(other) is State.STARTING


def test_the_place_is_taken_as_soon_as_all_of_it_is_free_or_may_be_claimed() -> None:
    world, waiting, small = a_remnant()
    [c_job] = [one for one in world.cluster.workloads.values() if one.spec.team == C]
    world.end(c_job.workload_id)
    assert world.state(waiting) is State.NOMINATED
    assert world.state(small) is State.QUEUED


def test_nothing_is_left_to_who_could_never_start() -> None:
    world, waiting, small = a_remnant(larger=8000)
    assert world.state(waiting) is State.QUEUED
    assert world.state(small) is State.STARTING


def test_nothing_is_left_to_who_has_not_waited() -> None:
    world, waiting, small = a_remnant(min_run_ms=24 * HOUR)
    assert world.state(waiting) is State.QUEUED
    assert world.state(small) is State.STARTING


def test_nothing_is_left_while_guarantees_could_claim_the_whole_place() -> None:
    world, _, small = a_remnant()
    assert world.state(small) is State.QUEUED
    teams = (*map(a_team, "abc"), a_team("d", guaranteed_milli_gpu=4000))
    assert world.ask(PutTeams(teams=teams)).error is None
    assert world.state(small) is State.STARTING


def test_what_is_free_elsewhere_is_used() -> None:
    world, _, small = a_remnant()
    assert world.state(small) is State.QUEUED
    nodes = (a_node("n0"), a_node("n1", gpus=1))
    world.step(NodesObserved(executor="fake", nodes=nodes))
    assert world.state(small) is State.STARTING


def test_a_place_is_kept_no_longer_than_a_borrower_would_have_it() -> None:
    world, waiting, small = a_remnant(min_run_ms=HOUR)
    assert world.state(small) is State.QUEUED
    assert world.outcome.wake_ms is not None
    world.wait(HOUR - 1)
    assert world.state(small) is State.QUEUED
    world.wait(1)
    assert {world.state(waiting), world.state(small)} == {State.QUEUED, State.STARTING}


def test_a_place_of_which_more_is_free_is_kept_anew() -> None:
    teams = [a_team(name) for name in "abc"]
    pool = a_pool(moved_permille=0, min_run_ms=HOUR)
    world = World(a_node("n0", gpus=8), teams=teams, pools=[pool])
    jobs = [world.run(a_job(f"a-{i}", team=A)) for i in range(8)]
    world.wait(24 * HOUR)
    for job in jobs[:4]:
        world.end(job)
    world.run(a_job("c-1", 4000, team=C))
    waiting = world.submit(a_job("b-1", 8000, team=B))
    small = world.submit(a_job("a-9", team=A))
    world.wait(2 * HOUR)
    for job in jobs[4:6]:
        world.end(job)
        world.wait(HOUR - 1)
        assert {world.state(waiting), world.state(small)} == {State.QUEUED}
    world.wait(1)
    assert {world.state(waiting), world.state(small)} == {State.QUEUED, State.STARTING}


def test_a_place_is_not_kept_anew_each_time_the_job_it_is_kept_for_leaves_the_line() -> None:
    world, _, small = a_remnant(behind=4, min_run_ms=HOUR)
    kept_for = [one.workload_id for one in world.cluster.workloads.values() if one.spec.team == B]
    for job in kept_for[:2]:
        assert world.state(small) is State.QUEUED
        world.wait(HOUR // 2 - 1)
        world.ask(Cancel(workload_id=job))
    world.wait(2)
    assert world.state(small) is State.STARTING
    assert world.state(kept_for[2]) is State.QUEUED


def stretching(name: str, workers: int, **asked: int) -> Spec:
    return a_job(name, workers=workers, **asked)


def test_who_fits_whole_takes_the_remnant_before_an_older_job_does_with_fewer_workers() -> None:
    world = World(a_node(gpus=4), teams=[a_team()])
    done, _ = world.run(a_job("done", 2000)), world.run(a_job("stays", 2000))
    elastic = world.submit(stretching("elastic", 4, min_workers=2, max_workers=8))
    rigid = world.submit(a_job("rigid", 2000))
    world.end(done)
    assert (world.state(rigid), world.state(elastic)) == (State.STARTING, State.QUEUED)


def test_what_nobody_takes_whole_goes_to_an_elastic_job_with_fewer_workers() -> None:
    world = World(a_node(gpus=4), teams=[a_team()])
    done, _ = world.run(a_job("done", 2000)), world.run(a_job("stays", 2000))
    elastic = world.submit(stretching("elastic", 4, min_workers=1, max_workers=8))
    rigid = world.submit(a_job("rigid", 3000))
    world.end(done)
    assert (world.state(rigid), world.state(elastic)) == (State.QUEUED, State.STARTING)
    attempt = world.get(elastic).current
    assert attempt is not None
    assert len(attempt.placements) == 2, "all that is idle"


def test_an_elastic_job_whose_turn_it_is_takes_all_that_it_asks_for() -> None:
    world = World(a_node(gpus=2), teams=[a_team()])
    done = world.run(a_job("done", 2000))
    elastic = world.submit(stretching("elastic", 2, min_workers=1))
    rigid = world.submit(a_job("rigid", 1000))
    world.end(done)
    attempt = world.get(elastic).current
    assert attempt is not None
    assert len(attempt.placements) == 2
    assert world.state(rigid) is State.QUEUED


def test_of_several_elastic_jobs_that_fit_with_fewer_workers_the_first_in_line_starts() -> None:
    world = World(a_node(gpus=4), teams=[a_team()])
    done, _ = world.run(a_job("done", 2000)), world.run(a_job("stays", 2000))
    first, second = (
        world.submit(stretching(name, 4, min_workers=2)) for name in ("first", "second")
    )
    world.end(done)
    assert (world.state(first), world.state(second)) == (State.STARTING, State.QUEUED)


def test_a_job_that_may_have_fewer_workers_keeps_its_teams_turn_before_a_team_that_has_more() -> (
    None
):
    world = World(a_node(gpus=4), teams=[a_team("a"), a_team("b")])
    running = [world.run(a_job(f"b{i}", team=B)) for i in range(4)]
    mine = world.submit(stretching("mine", 4, min_workers=1, team=A))
    others = [world.submit(a_job(f"next{i}", team=B)) for i in range(3)]
    world.end(running[0])
    assert world.state(mine) is State.STARTING
    assert {world.state(one) for one in others} == {State.QUEUED}
