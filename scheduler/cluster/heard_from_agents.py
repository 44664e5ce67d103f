"""What nodes' agents said besides what they were asked, as long as each of them answers where it did."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from gpucommons.gpu.clouds.notice_source import CloudNotice
from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.scheduler.core.model.types import NodeId


@dataclass(frozen=True, kw_only=True, slots=True)
class _Heard:
    address: str
    notice: CloudNotice
    #: None until the agent at this address was asked for its devices.
    driver: str | None
    #: Its unhealthy GPUs, by UUID, with the driver's word; None as with the driver.
    unhealthy: Mapping[DeviceId, str] | None


class HeardFromAgents:
    """A node may come back under the name of one that was taken: of it nothing is said yet.

    What was said once the core keeps by itself. Safe from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heard: dict[NodeId, _Heard] = {}

    def hear(
        self,
        node: NodeId,
        address: str,
        notice: CloudNotice,
        driver: str | None = None,
        unhealthy: Mapping[DeviceId, str] | None = None,
    ) -> None:
        """The agent of a node answered from an address; None is what it did not say this time."""
        with self._lock:
            before = self._heard.get(node)
            if before is not None and before.address == address:
                driver = before.driver if driver is None else driver
                unhealthy = before.unhealthy if unhealthy is None else unhealthy
            self._heard[node] = _Heard(
                address=address, notice=notice, driver=driver, unhealthy=unhealthy
            )

    def forget(self, node: NodeId) -> None:
        """It does not answer: the node may be gone."""
        with self._lock:
            self._heard.pop(node, None)

    def notices(self, addresses: Mapping[NodeId, str]) -> Mapping[NodeId, CloudNotice]:
        """What clouds say of nodes whose agent is where it was; the others are forgotten."""
        return {node: one.notice for node, one in self._of(addresses).items()}

    def drivers(self, addresses: Mapping[NodeId, str]) -> Mapping[NodeId, str]:
        """Versions of their GPUs' driver, of the same nodes; "" where the agent knows none."""
        heard = self._of(addresses).items()
        return {node: one.driver for node, one in heard if one.driver is not None}

    def unhealthy(self, addresses: Mapping[NodeId, str]) -> Mapping[NodeId, Mapping[DeviceId, str]]:
        """Unhealthy GPUs of the same nodes, by UUID; a node whose agent has not said is missing."""
        heard = self._of(addresses).items()
        return {node: one.unhealthy for node, one in heard if one.unhealthy is not None}

    def _of(self, addresses: Mapping[NodeId, str]) -> Mapping[NodeId, _Heard]:
        with self._lock:
            for node, one in list(self._heard.items()):
                if addresses.get(node) != one.address:
                    del self._heard[node]
            return dict(self._heard)
