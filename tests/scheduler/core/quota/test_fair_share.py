"""What a team has had of the surplus decays, and only changes of what it borrows are written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import T0, TRAIN, World, a_job, a_node, a_pool, a_team

from gpucommons.scheduler.core.model.resources import Team
from gpucommons.scheduler.core.model.types import HoldClass, State, TeamName, WorkloadId
from gpucommons.scheduler.core.quota.fair_share import decayed, standing

HOUR = 3_600_000
HALF_LIFE_MS = 24 * HOUR


@pytest.mark.parametrize(
    ("half_lives", "left"), [(0, 1024), (0.5, 768), (1, 512), (2, 256), (10, 1), (100, 0)]
)
def test_use_halves_with_every_half_life(half_lives: float, left: int) -> None:
    assert decayed(1024, 0, int(half_lives * HALF_LIFE_MS), HALF_LIFE_MS) == left


def test_steady_borrowing_settles_at_what_it_adds_in_a_half_life_and_a_half() -> None:
    settled = decayed(0, 1000, 30 * HALF_LIFE_MS, HALF_LIFE_MS)
    assert settled == pytest.approx(1.5 * HALF_LIFE_MS, rel=0.01)
    assert decayed(settled, 1000, HALF_LIFE_MS, HALF_LIFE_MS) == pytest.approx(settled, rel=0.01)


def test_more_weight_is_a_better_standing() -> None:
    assert standing(5000, 0, 2, HALF_LIFE_MS) < standing(5000, 0, 1, HALF_LIFE_MS)
    assert standing(0, 1000, 1, HALF_LIFE_MS) < standing(0, 2000, 1, HALF_LIFE_MS)


def test_who_has_had_less_goes_first() -> None:
    world = World(a_node(gpus=1), teams=[a_team("a"), a_team("b")])
    first = world.run(a_job("a-1", team=TeamName("a")))
    later = [world.submit(a_job(f"{t}-2", team=TeamName(t))) for t in ("a", "b")]
    world.wait(3_600_000)
    world.end(first)
    assert [world.state(job) for job in later] == [State.QUEUED, State.STARTING]
    assert world.cluster.usage[TeamName("a"), TRAIN] == decayed(0, 1000, 3_600_000, HALF_LIFE_MS)


def test_use_is_written_only_when_what_is_borrowed_changes() -> None:
    world = World(a_node(gpus=1), teams=[a_team("a")])
    job = world.run(a_job("a-1", team=TeamName("a")))
    assert world.wait(3_600_000).changes.empty
    world.end(job)
    assert world.outcome.changes.usage is not None


def test_the_pool_says_how_long_it_remembers() -> None:
    hour = 3_600_000
    world = World(
        a_node(gpus=1), teams=[a_team("a"), a_team("b")], pools=[a_pool(half_life_ms=hour)]
    )
    job = world.run(a_job("a-1", team=TeamName("a")))
    world.wait(hour)
    world.end(job)
    had = world.cluster.usage[TeamName("a"), TRAIN]
    world.wait(hour)
    world.run(a_job("b-1", team=TeamName("b")))

    assert world.cluster.usage[TeamName("a"), TRAIN] == had // 2


# --- departments -----------------------------------------------------------------------------


def a_university(gpus: int = 4, **pool: Any) -> World:
    """Two departments: one with two teams, one with a single one."""
    teams = [
        Team(name=TeamName("physics")),
        Team(name=TeamName("medicine")),
        a_team("stars"),
        a_team("lasers"),
        a_team("scans"),
    ]
    above = {"stars": "physics", "lasers": "physics", "scans": "medicine"}
    parents = {name: TeamName(parent) for name, parent in above.items()}
    return World(
        a_node(gpus=gpus),
        teams=[replace(team, parent=parents.get(team.name)) for team in teams],
        pools=[a_pool(**pool)],
    )


def test_departments_are_compared_before_their_teams() -> None:
    world = a_university(gpus=5, min_run_ms=24 * HOUR)
    stars = [world.run(a_job(f"s-{i}", team=TeamName("stars"))) for i in range(4)]
    world.run(a_job("m-1", team=TeamName("scans")))
    world.wait(60_000)
    teams = ("stars", "lasers", "scans")
    waiting = [world.submit(a_job(f"{team}-9", team=TeamName(team))) for team in teams]

    # Physics keeps three for its weight of two: medicine with one is due, though lasers has none.
    world.end(stars[0])
    assert [world.state(job) for job in waiting] == [State.QUEUED, State.QUEUED, State.STARTING]

    # Now physics is, and inside it the team that has none.
    world.end(stars[1])
    assert [world.state(job) for job in waiting] == [State.QUEUED, State.STARTING, State.STARTING]


def test_what_a_team_leaves_its_sister_gets() -> None:
    world = a_university(gpus=6)
    for i in range(6):
        world.run(a_job(f"m-{i}", team=TeamName("scans")))
    world.wait(3_600_000)
    for i in range(6):
        world.submit(a_job(f"s-{i}", team=TeamName("stars")))
    world.wait(2 * HOUR)

    held = [w for w in world.cluster.workloads.values() if w.nomination is not None]

    # Stars alone has both weights of physics: four of six GPUs, though its own weight is one.
    assert len(held) == 4


# --- turns -----------------------------------------------------------------------------------


def whole_cluster(half_life_ms: int = 4 * HOUR) -> tuple[World, list[WorkloadId]]:
    """Two teams whose jobs each need everything and never end."""
    world = World(
        a_node(gpus=4), teams=[a_team("a"), a_team("b")], pools=[a_pool(half_life_ms=half_life_ms)]
    )
    running = world.run(a_job("a-1", 4000, team=TeamName("a")))
    return world, [running, world.submit(a_job("b-1", 4000, team=TeamName("b")))]


def test_who_needs_everything_gets_a_turn() -> None:
    world, (running, waiting) = whole_cluster()
    assert world.state(waiting) is State.QUEUED

    while world.state(waiting) is State.QUEUED and world.now < T0 + 4 * HOUR:
        assert world.outcome.wake_ms is not None, "a turn comes by time alone"
        world.wait(world.outcome.wake_ms - world.now)

    assert world.state(waiting) is State.NOMINATED
    assert HOUR < world.now - T0 < 2 * HOUR
    stop = world.stop_of(running)
    assert stop.rule == "fair share"


def test_a_turn_is_not_taken_back_at_once() -> None:
    world, (running, waiting) = whole_cluster()
    world.wait(2 * HOUR)
    world.wait(30_000)
    world.end(running, 143)
    world.start(waiting)

    world.wait(HOUR)

    assert world.state(running) is State.QUEUED
    assert world.stop_of(waiting) is None
    attempt = world.get(waiting).current
    assert attempt is not None
    assert attempt.hold_class is HoldClass.OVER_QUOTA


def test_who_had_more_so_far_takes_nothing_from_who_had_less() -> None:
    world = World(a_node(gpus=4), teams=[a_team("a"), a_team("b")])
    for i in range(4):
        world.run(a_job(f"a-{i}", team=TeamName("a")))
    for i in range(4):
        world.submit(a_job(f"b-{i}", team=TeamName("b")))
    world.wait(24 * HOUR)

    nominated = [w for w in world.cluster.workloads.values() if w.nomination is not None]

    assert len(nominated) == 2


def without_gpu(world: World, team: str, jobs: int) -> list[WorkloadId]:
    return [world.submit(a_job(f"{team}-{i}", 0, team=TeamName(team))) for i in range(jobs)]


def test_processors_go_to_the_team_that_holds_fewest_for_its_weight() -> None:
    teams = [a_team("a", over_quota_weight=2), a_team("b", over_quota_weight=1)]
    world = World(a_node(gpus=0, cpu_milli=6000), teams=teams)
    many = without_gpu(world, "a", 12)
    few = without_gpu(world, "b", 4)
    for job in many[:6]:
        world.start(job)
        world.end(job)

    def running(jobs: list[WorkloadId]) -> int:
        return sum(world.state(job) is State.STARTING for job in jobs)

    assert (running(many), running(few)) == (4, 2)


def test_work_without_a_gpu_is_no_reason_to_wait_for_one() -> None:
    world = World(a_node(gpus=1), teams=[a_team("a"), a_team("b")])
    first = world.run(a_job("b-1", team=TeamName("b")))
    without_gpu(world, "a", 10)
    of_b = world.submit(a_job("b-2", team=TeamName("b")))
    of_a = world.submit(a_job("a-gpu", team=TeamName("a")))
    world.wait(HOUR)
    world.end(first)
    assert (world.state(of_a), world.state(of_b)) == (State.STARTING, State.QUEUED)
