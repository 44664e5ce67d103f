"""Who is stopped for a share or a priority, how often, and who else gains from it."""

from __future__ import annotations

from builders import TRAIN, World, a_job, a_node, a_pool, a_team

from gpucommons.scheduler.core.model.types import Role, State, WorkloadId
from gpucommons.scheduler.core.quota.fair_share import LOOKS

MINUTE = 60_000


def victims_of(world: World, job: WorkloadId) -> list[WorkloadId]:
    nomination = world.get(job).nomination
    assert nomination is not None, world.get(job)
    return [
        workload.workload_id
        for workload in world.cluster.workloads.values()
        if workload.current is not None and workload.current.attempt_id in nomination.victims
    ]


def end_victims(world: World, job: WorkloadId) -> None:
    for victim in victims_of(world, job):
        world.end(victim, 143)


def test_what_a_preemption_clears_beyond_its_need_goes_to_others_in_the_same_cycle() -> None:
    world = World(a_node(gpus=4), teams=[a_team("nlp"), a_team("speech")])
    low = world.run(a_job("low", 4000, team="nlp", priority="low"))
    small = world.submit(a_job("small", 125, team="nlp"))
    other = world.submit(a_job("other", 1000, team="speech"))
    world.wait(MINUTE)
    assert victims_of(world, small) == [low]
    assert victims_of(world, other) == [low]
    assert world.step().changes.empty


def until_promised(world: World, job: WorkloadId) -> None:
    while world.get(job).nomination is None:
        assert world.outcome.wake_ms is not None, "nobody would ever look again"
        world.wait(world.outcome.wake_ms - world.now)


def test_who_claims_a_share_waits_first_as_long_as_others_may_run() -> None:
    world = World(a_node(gpus=2), teams=[a_team("a"), a_team("b")])
    for i in range(2):
        world.run(a_job(f"a-{i}", team="a"))
    world.wait(24 * 60 * MINUTE)
    claim = world.submit(a_job("b-1", team="b"))
    asked_ms = world.now
    assert world.get(claim).nomination is None

    until_promised(world, claim)

    pool = world.cluster.pools[TRAIN]
    assert pool.min_run_ms <= world.now - asked_ms <= pool.min_run_ms + pool.half_life_ms // LOOKS


def test_who_is_spared_may_be_claimed_by_the_next_in_the_same_cycle() -> None:
    pool = a_pool(half_life_ms=120 * MINUTE, min_run_ms=10 * MINUTE, moved_permille=0)
    teams = [a_team("a"), a_team("b", over_quota_weight=3)]
    world = World(a_node(gpus=6), teams=teams, pools=[pool])
    one = world.run(a_job("a-1", team="a"))
    two = world.run(a_job("a-2", 2000, team="a"))
    running = world.run(a_job("b-1", 3000, team="b"))
    first = world.submit(a_job("b-2", 3000, team="b"))
    second = world.submit(a_job("b-3", 3000, team="b"))
    until_promised(world, first)
    assert victims_of(world, first) == [one, two]

    world.end(running)
    assert world.state(first) is State.STARTING
    assert victims_of(world, second) == [one, two]
    assert world.step().changes.empty


def test_a_job_is_stopped_for_a_share_once_per_half_life() -> None:
    world = World(a_node(gpus=2), teams=[a_team("a"), a_team("b")])
    jobs = [world.run(a_job(f"a-{i}", team="a")) for i in range(2)]
    first = world.submit(a_job("b-1", team="b"))
    until_promised(world, first)
    (stopped,) = victims_of(world, first)
    end_victims(world, first)
    world.start(first)
    world.wait(MINUTE)
    world.end(first)
    world.start(stopped)
    # Both of team a's jobs run again; b wants its share once more.
    world.wait(10 * MINUTE)
    second = world.submit(a_job("b-2", team="b"))
    until_promised(world, second)
    assert victims_of(world, second) == [job for job in jobs if job != stopped]
    end_victims(world, second)
    world.start(second)
    world.wait(10 * MINUTE)
    world.end(second)
    world.start(next(job for job in jobs if job != stopped))
    world.wait(10 * MINUTE)
    third = world.submit(a_job("b-3", team="b"))
    assert world.state(third) is State.QUEUED
    until_promised(world, third)
    assert (
        world.now
        >= world.get(stopped).attempts[0].ended_ms + world.cluster.pools[TRAIN].half_life_ms
    )


def test_without_a_minimum_run_time_a_job_may_be_stopped_as_soon_as_it_runs() -> None:
    world = World(a_node(gpus=1), teams=[a_team("a")], pools=[a_pool(min_run_ms=0)])
    low = world.submit(a_job("low", team="a", priority="low"))
    high = world.submit(a_job("high", team="a", priority="high"))
    assert world.state(high) is State.QUEUED
    world.start(low)
    assert victims_of(world, high) == [low]


def test_a_guarantee_does_not_wait_for_half_lives() -> None:
    world = World(a_node(gpus=1), teams=[a_team("a"), a_team("b", guaranteed_milli_gpu=1000)])
    borrower = world.run(a_job("a-1", team="a"))
    for number in range(2):
        owner = world.submit(a_job(f"b-{number}", team="b"))
        assert victims_of(world, owner) == [borrower]
        end_victims(world, owner)
        world.start(owner)
        world.end(owner)
        world.start(borrower)


def test_a_share_is_not_won_back_where_the_winner_would_then_borrow_more() -> None:
    world = World(a_node(gpus=4), teams=[a_team("a", over_quota_weight=3), a_team("b")])
    for number in range(4):
        world.run(a_job(f"a-{number}", team="a"))
    first = world.submit(a_job("b-1", team="b"))
    second = world.submit(a_job("b-2", team="b"))
    until_promised(world, first)
    assert world.state(second) is State.QUEUED


def test_an_elastic_job_loses_surplus_workers_before_a_whole_job_goes() -> None:
    world = World(a_node(gpus=4), teams=[a_team("a"), a_team("b", guaranteed_milli_gpu=1000)])
    rigid = world.run(a_job("rigid", team="a"))
    elastic = world.submit(a_job("elastic", team="a", workers=3, min_workers=1, max_workers=3))
    world.start(elastic)
    claim = world.submit(a_job("claim", team="b"))
    assert victims_of(world, claim) in ([elastic], [rigid])
    stop = world.stop_of(elastic)
    assert stop is None or stop.why == "resize"


def test_a_gang_of_several_roles_wins_back_what_all_of_them_need_and_no_more() -> None:
    roles = (
        Role(name="chief", count=1, milli_gpu=0, cpu_milli=500, command=("true",)),
        Role(name="worker", count=2, milli_gpu=1000, cpu_milli=500, command=("true",)),
        Role(name="judge", count=1, milli_gpu=500, cpu_milli=500, command=("true",)),
    )
    world = World(
        a_node("n1", gpus=2),
        a_node("n2", gpus=2),
        teams=[a_team("a"), a_team("b", guaranteed_milli_gpu=4000)],
    )
    jobs = [world.run(a_job(f"a-{number}", team="a")) for number in range(4)]
    gang = world.submit(a_job("gang", team="b", roles=roles))
    victims = victims_of(world, gang)
    assert len(victims) == 3
    assert set(victims) < set(jobs)
    end_victims(world, gang)
    assert world.state(gang) is State.STARTING


def test_a_gang_that_cannot_fit_whoever_goes_stops_nobody() -> None:
    world = World(
        a_node("n1", gpus=2),
        a_node("n2", gpus=2),
        teams=[
            a_team("a"),
            a_team("b", guaranteed_milli_gpu=2000),
            a_team("c", guaranteed_milli_gpu=2000),
        ],
    )
    firm = [world.run(a_job(f"c-{number}", 2000, team="c")) for number in range(1)]
    borrowers = [world.run(a_job(f"a-{number}", team="a")) for number in range(2)]
    gang = world.submit(a_job("gang", 1000, team="b", workers=3))
    assert world.state(gang) is State.QUEUED
    assert all(world.stop_of(job) is None for job in [*firm, *borrowers])
