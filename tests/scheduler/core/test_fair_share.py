"""What a team has had of the surplus decays, and only changes of what it borrows are written."""

from __future__ import annotations

import pytest
from builders import TRAIN, World, a_job, a_node, a_team

from gpucommons.scheduler.core.fair_share import HALF_LIFE_MS, decayed, standing
from gpucommons.scheduler.core.types import State, TeamName


@pytest.mark.parametrize(
    ("half_lives", "left"), [(0, 1024), (0.5, 768), (1, 512), (2, 256), (10, 1), (100, 0)]
)
def test_use_halves_with_every_half_life(half_lives: float, left: int) -> None:
    assert decayed(1024, 0, int(half_lives * HALF_LIFE_MS)) == left


def test_steady_borrowing_settles_at_what_it_adds_in_a_half_life_and_a_half() -> None:
    settled = decayed(0, 1000, 30 * HALF_LIFE_MS)
    assert settled == pytest.approx(1.5 * HALF_LIFE_MS, rel=0.01)
    assert decayed(settled, 1000, HALF_LIFE_MS) == pytest.approx(settled, rel=0.01)


def test_more_weight_is_a_better_standing() -> None:
    assert standing(5000, 0, 2) < standing(5000, 0, 1)
    assert standing(0, 1000, 1) < standing(0, 2000, 1)


def test_who_has_had_less_goes_first() -> None:
    world = World(a_node(gpus=1), teams=[a_team("a"), a_team("b")])
    first = world.run(a_job("a-1", team=TeamName("a")))
    later = [world.submit(a_job(f"{t}-2", team=TeamName(t))) for t in ("a", "b")]
    world.wait(3_600_000)
    world.end(first)
    assert [world.state(job) for job in later] == [State.QUEUED, State.STARTING]
    assert world.cluster.usage[TeamName("a"), TRAIN] == decayed(0, 1000, 3_600_000)


def test_use_is_written_only_when_what_is_borrowed_changes() -> None:
    world = World(a_node(gpus=1), teams=[a_team("a")])
    job = world.run(a_job("a-1", team=TeamName("a")))
    assert world.wait(3_600_000).changes.empty
    world.end(job)
    assert world.outcome.changes.usage is not None
