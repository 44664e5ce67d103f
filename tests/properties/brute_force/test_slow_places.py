"""What is noted as slow is a wish: with any such notes the promises hold, and whoever had a place has one."""

from __future__ import annotations

from typing import Any

from builders import T0, World, a_job, a_node, a_team
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties import truths
from properties.histories import History, days, rough

from gpucommons.scheduler.core.model.intents import NoteSlowNodes
from gpucommons.scheduler.core.model.resources import SlowNode, SlowPair
from gpucommons.scheduler.core.model.types import Millis, NodeId

some = settings(
    max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
_NODES = 4
numbers = st.integers(0, _NODES - 1)
#: Some soon over, some never.
ends = st.sampled_from([T0 + 60_000, 10**15])
slow_nodes = st.dictionaries(numbers, ends, max_size=_NODES)
slow_pairs = st.dictionaries(
    st.tuples(numbers, numbers).filter(lambda pair: pair[0] < pair[1]), ends, max_size=6
)


def slow_until(until_ms: int) -> SlowNode:
    return SlowNode(percent=30, runs=9, since_ms=Millis(0), until_ms=Millis(until_ms))


def noted(nodes: dict[int, int], pairs: dict[tuple[int, int], int]) -> NoteSlowNodes:
    there: dict[NodeId, tuple[SlowPair, ...]] = {}
    for pair, until_ms in pairs.items():
        for here, other in (pair, pair[::-1]):
            one = SlowPair(other=NodeId(f"n{other}"), slow=slow_until(until_ms))
            there[NodeId(f"n{here}")] = (*there.get(NodeId(f"n{here}"), ()), one)
    slow = {NodeId(f"n{one}"): slow_until(until_ms) for one, until_ms in nodes.items()}
    return NoteSlowNodes(slow=slow, slow_pairs=there)


@given(days(rough), slow_nodes, slow_pairs)
@some
def test_promises_hold_whatever_is_noted_as_slow(
    steps: Any, nodes: dict[int, int], pairs: dict[tuple[int, int], int]
) -> None:
    def check(history: History) -> None:
        cluster = history.world.cluster
        truths.nothing_is_held_twice(cluster)
        truths.promises_do_not_overlap(cluster)
        truths.gangs_are_whole(cluster)
        truths.blocks_are_laid_out(cluster)
        truths.stops_have_a_beneficiary(cluster)
        truths.who_waits_for_victims_has_some(cluster)
        truths.what_is_new_lies_on_ready_nodes(history.before, cluster)
        truths.quotas_hold(cluster)

    history = History(check, nodes=(2, 1, 2, 1))
    history.world.ask(noted(nodes, pairs))
    history.play(steps)


@given(
    st.lists(st.integers(1, 4), min_size=_NODES, max_size=_NODES),
    slow_nodes,
    slow_pairs,
    st.sampled_from([500, 1000, 2000]),
    st.integers(1, 8),
)
@settings(some, max_examples=150)
def test_a_job_that_has_a_place_without_the_notes_has_one_with_them(
    gpus: list[int],
    nodes: dict[int, int],
    pairs: dict[tuple[int, int], int],
    size: int,
    workers: int,
) -> None:
    def starts(notes: NoteSlowNodes) -> bool:
        there = [a_node(f"n{number}", count) for number, count in enumerate(gpus)]
        world = World(*there, teams=[a_team(guaranteed_milli_gpu=0)])
        world.ask(notes)
        return world.get(world.submit(a_job("a", size, workers=workers))).current is not None

    assert starts(noted(nodes, pairs)) == starts(noted({}, {}))
