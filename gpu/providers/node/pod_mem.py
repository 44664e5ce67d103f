"""A memory limit in the driver itself, on the control group of a pod (driver r615).

The kubelet owns the group: nothing is made or moved here. The limit is set while the pod's volume is
mounted, before its first container, and the reservation taken back when the volume is. What the
programs see as their card is the container toolkit's part, which limits the containers below.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpucommons.gpu.devices.devices import Device
from gpucommons.gpu.devices.memory_limits import MemoryLimits
from gpucommons.gpu.errors import LimitNotInForce
from gpucommons.gpu.linux.pod_cgroups import PodCgroups
from gpucommons.gpu.providers.base import Capability, Grant, Held, Injection, NodeTraits
from gpucommons.gpu.providers.node.cgroup_mem import driver_limits
from gpucommons.gpu.providers.node.group_limits import NAME, GroupLimits, kernel_share


class PodMemProvider:
    """A fraction of a card, held by the driver for a whole pod."""

    name = NAME

    def __init__(self, limits: MemoryLimits, groups: PodCgroups) -> None:
        self._limits = GroupLimits(limits)
        self._groups = groups

    def probe(self, traits: NodeTraits) -> Capability:
        """Works where limits on control groups do."""
        return driver_limits(traits)

    def quantize(self, device: Device, milli_gpu: int, traits: NodeTraits) -> Grant | None:
        """Any fraction that can hold a CUDA context.

        Raises
        ------
        SliceTooSmall
            When the share's memory is below the least that is useful.
        """
        return kernel_share(device, milli_gpu)

    def prepare(self, held: Held, traits: NodeTraits) -> Injection:
        """Limit the pod's group on every device that the slice shares; before there is a pod, nothing.

        Raises
        ------
        LimitNotInForce
            When the pod has no group, or the driver refuses.
        """
        group = self._group(held)
        if group is None:
            return Injection()
        self._limits.put(held, group)
        return Injection()

    def verify(self, held: Held) -> None:
        """Read every limit back.

        Raises
        ------
        LimitNotInForce
            When the driver names another one, or none.
        """
        group = self._group(held)
        if group is None:
            return
        for device_id, memory_mib, words in self._limits.wrong(held, group):
            message = (
                f"The driver reports {words} for the pod of slice {held.slice.slice_id} on "
                f"{device_id}, not {memory_mib} MiB: the pod does not start."
            )
            raise LimitNotInForce(message)

    def attach(self, held: Held, pid: int) -> None:
        """A pod's processes are born in its group."""

    def strays(self, held: Held, pids: Sequence[int]) -> frozenset[int]:
        """Processes outside the pod's group."""
        if not held.fractions or held.pod is None:
            return frozenset()
        group = self._groups.find(held.pod)
        if group is None:
            return frozenset(pids)
        return frozenset(pid for pid in pids if not self._groups.holds(str(group), pid))

    def measured(self, held: Held, used_mib: int) -> None:
        """The driver counts contexts into the limit by itself."""

    def resize(self, held: Held, memory_mib: int) -> None:
        """Set another limit: more at any time, less only down to what is in use.

        Raises
        ------
        CannotShrink
            When more is in use.
        LimitNotInForce
            When the driver refuses.
        """
        group = self._group(held)
        if group is None:
            return
        self._limits.resize(held, group, memory_mib)

    def release(self, held: Held) -> None:
        """Take the reservation back, before the kubelet removes the group."""
        group = None if held.pod is None else self._groups.find(held.pod)
        if group is None:
            return
        self._limits.give_back(held, str(group))

    def _group(self, held: Held) -> str | None:
        """The pod's group; None where there is nothing to limit, or no pod yet."""
        if not held.fractions or held.pod is None:
            return None
        found: Path | None = self._groups.find(held.pod)
        if found is None:
            message = (
                f"The control group of pod {held.pod} is not there, so its memory cannot be limited: "
                "the pod does not start."
            )
            raise LimitNotInForce(message)
        return str(found)
