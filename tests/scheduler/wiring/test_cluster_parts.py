"""What the executor is told of the scheduler's books, and how often that is worked out."""

from __future__ import annotations

import pytest
from builders import TRAIN, World, a_notebook, a_team

from gpucommons.scheduler.core.model.intents import NoteParked, Park, Started
from gpucommons.scheduler.core.model.state import SliceCleared
from gpucommons.scheduler.core.whatif.next_shares import next_shares
from gpucommons.scheduler.wiring import cluster_parts
from gpucommons.scheduler.wiring.cluster_parts import (
    NextShares,
    held_slots,
    leases_held,
    node_of_slice,
)


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


def test_a_parked_notebook_holds_no_slot_and_its_pod_is_in_the_books_all_the_same() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=1000)])
    lease = world.submit(a_notebook(milli_gpu=1000), redeem=True)
    world.ask(Started(workload_id=lease), "hub")
    attempt = world.get(lease).current
    assert attempt is not None
    (place,) = attempt.placements
    slice_id = place.slice_id
    assert slice_id is not None
    assert not leases_held(world.cluster)[lease].parked

    world.ask(Park(workload_id=lease))
    world.ask(NoteParked(workload_id=lease, host_mib=100))
    world.step(SliceCleared(attempt_id=attempt.attempt_id))

    assert held_slots(world.cluster) == frozenset()
    held = leases_held(world.cluster)[lease]
    assert (held.parked, held.slices, held.gone_since_ms) == (True, {slice_id}, None)
    assert node_of_slice(world.cluster, slice_id) == place.node_id
