"""Interruption notices as the clouds' handlers leave them on nodes."""

from __future__ import annotations

from typing import Any

from builders import a_node

from gpucommons.gpu.clouds.notice_source import CloudNotice
from gpucommons.scheduler.core.model.resources import NodeState
from gpucommons.scheduler.core.model.types import NodeId
from gpucommons.scheduler.executors.kubernetes.nodes.taken_back import TakenBack
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import NodeSeen, read_node

NOW = 1_000_000


def seen(*taints: str) -> NodeSeen:
    node: dict[str, Any] = {
        "metadata": {"name": "n1"},
        "spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]},
    }
    return read_node(node)


def test_a_notice_counts_from_when_it_is_first_seen() -> None:
    times = iter((NOW, NOW + 60_000))
    taken = TakenBack(lambda: next(times))
    noticed = {"n1": seen("aws-node-termination-handler/spot-itn", "nvidia.com/gpu")}
    for _ in range(2):
        (node,) = taken.marked([a_node("n1")], noticed)
        assert node.leaves_ms == NOW + 120_000


def test_each_cloud_has_its_own_time_and_other_taints_mean_nothing() -> None:
    taken = TakenBack(lambda: NOW)
    gone = {"n1": seen("cloud.google.com/impending-node-termination")}
    (node,) = taken.marked([a_node("n1")], gone)
    assert node.leaves_ms == NOW + 30_000
    (node,) = taken.marked([a_node("n1")], {"n1": seen("nvidia.com/gpu")})
    assert node.leaves_ms is None


def test_what_its_agent_heard_of_the_cloud_is_a_notice_and_the_earliest_counts() -> None:
    taken = TakenBack(lambda: NOW)
    told = {NodeId("n1"): CloudNotice(leaves_ms=NOW + 50_000)}
    (node,) = taken.marked([a_node("n1")], {"n1": seen()}, told)
    assert (node.leaves_ms, node.state) == (NOW + 50_000, NodeState.READY)
    tainted = {"n1": seen("cloud.google.com/impending-node-termination")}
    (node,) = taken.marked([a_node("n1")], tainted, told)
    assert node.leaves_ms == NOW + 30_000


def test_a_node_that_its_cloud_may_take_soon_is_closed_to_new_work_alone() -> None:
    told = {NodeId("n1"): CloudNotice(at_risk=True)}
    (node,) = TakenBack(lambda: NOW).marked([a_node("n1")], {"n1": seen()}, told)
    assert (node.leaves_ms, node.state) == (None, NodeState.CORDONED)
