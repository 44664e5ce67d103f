"""What is held back: one ledger, from which bits and loads follow and sentences are written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from builders import TRAIN, World, a_job, a_node, a_pool, a_team

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.scheduler.core.capacity.capacity import Capacity
from gpucommons.scheduler.core.capacity.hold_back import HoldBack, HoldBackKey, HoldBackReason
from gpucommons.scheduler.core.capacity.node_capacity import NodeCapacity
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.lending import headroom
from gpucommons.scheduler.core.model.holds import FULL, Load
from gpucommons.scheduler.core.model.intents import SetNodeState
from gpucommons.scheduler.core.model.resources import NodeState
from gpucommons.scheduler.core.model.types import HoldClass, NodeId, WorkloadId
from gpucommons.scheduler.core.quota.layout import Region

NODE = a_node("n1", 2)
FIRST, SECOND = (one.device_id for one in NODE.devices)
HEADROOM = HoldBackKey(HoldBackReason.HEADROOM)
UNLENT = HoldBackKey(HoldBackReason.UNLENT)
PROMISE = HoldBackKey(HoldBackReason.PROMISE, WorkloadId("one"))


def a_hold_back(key: HoldBackKey, device_id: DeviceId = FIRST, bits: int = FULL) -> HoldBack:
    return HoldBack(
        reason=key.reason,
        node_id=NODE.node_id,
        bits=((device_id, bits),),
        load=Load(1000, 100),
        held_for=HoldClass.FIXED,
    )


def a_capacity() -> tuple[Capacity, NodeCapacity]:
    capacity = Capacity.of([NODE], [], ())
    return capacity, capacity.nodes[NODE.node_id]


def may_not(node: NodeCapacity) -> dict[HoldClass, int]:
    """Bits of the first device that each class may not use."""
    return {one: node.devices[FIRST].blocked(one) for one in HoldClass}


def test_what_is_held_back_is_held_back_from_those_whom_its_reason_names() -> None:
    for reason in HoldBackReason:
        capacity, node = a_capacity()
        key = HoldBackKey(reason)
        capacity.ledger.replace(key, [a_hold_back(key)])

        kept = {one for one, bits in may_not(node).items() if bits}

        assert kept == reason.held_from


def test_what_another_reason_holds_back_as_well_stays_held_back() -> None:
    capacity, node = a_capacity()
    capacity.ledger.replace(HEADROOM, [a_hold_back(HEADROOM, bits=0b0111)])
    capacity.ledger.replace(UNLENT, [a_hold_back(UNLENT, bits=0b1110)])

    capacity.ledger.drop(UNLENT)

    assert node.devices[FIRST].blocked(HoldClass.OVER_QUOTA) == 0b0111
    assert node.free(HoldClass.OVER_QUOTA) == node.total.minus(Load(1000, 100))


def test_only_what_differs_from_before_touches_a_node() -> None:
    capacity, node = a_capacity()
    both = [a_hold_back(HEADROOM), a_hold_back(HEADROOM, SECOND)]
    capacity.ledger.replace(HEADROOM, both)
    before = (capacity.changes, node.version, capacity.ledger.borrower_changes)

    capacity.ledger.replace(HEADROOM, list(both))
    assert (capacity.changes, node.version, capacity.ledger.borrower_changes) == before

    capacity.ledger.replace(HEADROOM, both[1:])
    assert node.devices[FIRST].blocked(HoldClass.OVER_QUOTA) == 0
    assert node.devices[SECOND].blocked(HoldClass.OVER_QUOTA) == FULL
    assert capacity.changes == before[0] + 1


def test_what_is_ignored_or_minded_for_a_search_is_as_before_after_it() -> None:
    capacity, node = a_capacity()
    capacity.ledger.replace(PROMISE, [a_hold_back(PROMISE, bits=0b0011)])
    before = may_not(node)

    with capacity.ledger.without(PROMISE):
        assert not any(may_not(node).values())
    with capacity.ledger.with_also([a_hold_back(UNLENT)]):
        assert node.devices[FIRST].blocked(HoldClass.OVER_QUOTA) == FULL

    assert may_not(node) == before
    assert capacity.ledger.under(PROMISE) == (a_hold_back(PROMISE, bits=0b0011),)


def text_of(world: World, workload_id: WorkloadId) -> str:
    reason = world.get(workload_id).reason
    assert reason is not None
    return reason.text


def test_who_may_not_have_a_place_reads_for_whose_job_it_is_kept_and_until_when() -> None:
    teams = [a_team(name, guaranteed_milli_gpu=2000) for name in ("a", "b")]
    world = World(NODE, a_node("n2", 2), teams=teams)
    world.run(a_job("b-1", team="b", over_quota=False))
    world.ask(SetNodeState(node_id=NodeId("n2"), state=NodeState.CORDONED), "admin")
    waits = world.submit(a_job("a-wide", 2000, team="a", over_quota=False))

    alike = world.submit(a_job("a-wide-2", 2000, team="a", over_quota=False))
    others = world.submit(a_job("b-2", team="b", over_quota=False))

    assert text_of(world, others) == (
        "Needs 1 GPU; none is free, and 1 more is kept for a job of a, until the rest of its place is free."
    )
    assert text_of(world, waits) == (
        "Needs 2 GPUs on one node; none is free, and 1 more is kept for it, until the rest of its place is free."
    )
    assert text_of(world, alike) == text_of(world, waits).replace("for it", "for a job of a")


def test_several_kinds_are_counted_apart() -> None:
    teams = [a_team("a"), a_team("b", guaranteed_milli_gpu=4000, fixed_milli_gpu=1000)]
    pool = replace(a_pool(lend_after_ms=300_000, headroom_milli_gpu=1000), unlent_permille=200)
    world = World(a_node(gpus=8), teams=teams, pools=[pool])
    world.end(world.run(a_job("b-1", team="b")))

    waits = world.submit(a_job("a-wide", 8000, team="a"))

    assert text_of(world, waits) == (
        "Needs 8 GPUs on one node; 5 are free, and 3 more are kept: 1 for notebooks,"
        " 1 for b's next job, for 5 min after its last one, 1 for guarantees."
    )


def test_headroom_is_looked_for_again_only_on_nodes_that_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is asked for before each reclaim: all blocks each time would cost the square of them."""
    team = a_team("a", fixed_milli_gpu=4000)
    world = World(NODE, a_node("n2", 2), teams=[team], pools=[a_pool(headroom_milli_gpu=1000)])
    cycle = CycleState.of(world.cluster, world.now, world.new_ids)
    cycle.refresh()
    before = headroom.hold_backs(cycle, cycle.pools[TRAIN])
    looked_at: list[NodeId] = []
    look = headroom._free_parts

    def noting(node: NodeCapacity, region: Region) -> Iterator[Region]:
        looked_at.append(node.node.node_id)
        return look(node, region)

    monkeypatch.setattr(headroom, "_free_parts", noting)
    assert headroom.hold_backs(cycle, cycle.pools[TRAIN]) == before
    assert looked_at == []
    (kept,) = (device_id for device_id, _ in before[0].bits)
    (home,) = (one for one in cycle.capacity.nodes.values() if kept in one.devices)
    promised = replace(a_hold_back(PROMISE), node_id=home.node.node_id, bits=((kept, FULL),))
    cycle.capacity.ledger.replace(PROMISE, [promised])

    after = headroom.hold_backs(cycle, cycle.pools[TRAIN])

    assert set(looked_at) == {home.node.node_id}
    assert len(after) == 1
    assert kept not in [device_id for device_id, _ in after[0].bits]
