"""What the agents of nodes heard of their clouds, as long as each of them answers where it did."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from gpucommons.gpu.clouds.notice_source import CloudNotice
from gpucommons.scheduler.core.model.types import NodeId


class HeardNotices:
    """A node may come back under the name of one that was taken: of it nothing is said yet.

    What was said once the core keeps by itself. Safe from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heard: dict[NodeId, tuple[str, CloudNotice]] = {}

    def hear(self, node: NodeId, address: str, notice: CloudNotice) -> None:
        """The agent of a node answered from an address."""
        with self._lock:
            self._heard[node] = (address, notice)

    def forget(self, node: NodeId) -> None:
        """It does not answer: the node may be gone."""
        with self._lock:
            self._heard.pop(node, None)

    def of(self, addresses: Mapping[NodeId, str]) -> Mapping[NodeId, CloudNotice]:
        """Of those whose agent is where it was; the others are forgotten."""
        with self._lock:
            for node, (address, _) in list(self._heard.items()):
                if addresses.get(node) != address:
                    del self._heard[node]
            return {node: notice for node, (_, notice) in self._heard.items()}
