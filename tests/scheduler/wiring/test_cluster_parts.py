"""What the executor is told of the scheduler's books, and how often that is worked out."""

from __future__ import annotations

import pytest
from builders import TRAIN, World, a_notebook, a_team

from gpucommons.scheduler.core.whatif.next_shares import next_shares
from gpucommons.scheduler.wiring import cluster_parts
from gpucommons.scheduler.wiring.cluster_parts import NextShares, held_slots


def test_the_next_shares_are_worked_out_when_something_changed_and_seldom(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, clock, asked = World(teams=[a_team(fixed_milli_gpu=1000)]), [0.0], []

    def takes_a_second(*of):
        asked.append(of)
        clock[0] += 1
        return next_shares(*of)

    monkeypatch.setattr(cluster_parts, "next_shares", takes_a_second)
    shares = NextShares(lambda: world.cluster, lambda: clock[0])
    pools = frozenset({TRAIN})
    first = shares(pools)
    clock[0] = 100
    assert (shares(pools), len(asked)) == (first, 1)

    world.submit(a_notebook(milli_gpu=1000), redeem=True)
    assert held_slots(world.cluster) == first
    assert (shares(pools), len(asked)) == (frozenset(), 2)
    world.wait(1)
    world.submit(a_notebook("bob"))
    clock[0] = 109.9
    shares(pools)
    assert len(asked) == 2
    clock[0] = 110
    shares(pools)
    assert len(asked) == 3
