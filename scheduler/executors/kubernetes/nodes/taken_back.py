"""Nodes that their cloud takes back: by the taints that the clouds' own handlers set, and by what the agent
of a node heard from the cloud itself.

A taint does not say when. So the time counts from when it is first seen, by what the cloud promises; the
core keeps the earliest that it was ever told, also over a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from gpucommons.gpu.clouds.notice_source import CloudNotice
from gpucommons.scheduler.core.model.resources import Node, NodeState
from gpucommons.scheduler.core.model.types import Millis, NodeId
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import NodeSeen

#: From the notice of an interruption to the end: of AWS' node termination handler, and of Google's.
NOTICES_S: Mapping[str, int] = {
    "aws-node-termination-handler/spot-itn": 120,
    "cloud.google.com/impending-node-termination": 30,
}


class TakenBack:
    """Remembers when each notice was first seen."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._leaves: dict[str, Millis] = {}

    def marked(
        self,
        nodes: Iterable[Node],
        seen: Mapping[str, NodeSeen],
        notices: Mapping[NodeId, CloudNotice] = MappingProxyType({}),
    ) -> tuple[Node, ...]:
        """The same nodes, with when they go where that was announced.

        One that its cloud may take soon is closed to new work: what runs there goes on.
        """
        self._look(seen)
        return tuple(self._marked(node, notices.get(node.node_id)) for node in nodes)

    def _marked(self, node: Node, notice: CloudNotice | None) -> Node:
        told = (self._leaves.get(node.node_id), None if notice is None else notice.leaves_ms)
        leaves_ms = min((one for one in told if one is not None), default=None)
        if leaves_ms is not None:
            node = replace(node, leaves_ms=Millis(leaves_ms))
        if notice is not None and notice.at_risk:
            node = replace(node, state=NodeState.CORDONED)
        return node

    def _look(self, seen: Mapping[str, NodeSeen]) -> None:
        left_s = {
            name: min(NOTICES_S[taint] for taint in found)
            for name, node in seen.items()
            if (found := node.taints & NOTICES_S.keys())
        }
        self._leaves = {
            name: self._leaves.get(name, Millis(self._now_ms() + 1000 * seconds))
            for name, seconds in left_s.items()
        }
