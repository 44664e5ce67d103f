"""A memory limit in the driver itself, for all processes of one control group (driver r615).

The group must exist and be limited before user code allocates: what was allocated earlier is not
charged. So a worker is put into it before it learns its command, and a notebook server before it
becomes one. The reservation is taken back before the group goes, or its parents keep it.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpucommons.gpu.devices.devices import Device
from gpucommons.gpu.devices.memory_limits import MemoryLimits
from gpucommons.gpu.errors import LimitNotInForce
from gpucommons.gpu.providers.base import Capability, Grant, Held, Injection, NodeTraits
from gpucommons.gpu.providers.node.group_limits import NAME, GroupLimits, kernel_share
from gpucommons.gpu.slices.cgroups import Cgroups

#: The first driver that limits memory by control group.
FIRST_DRIVER = 615


class CgroupMemProvider:
    """A fraction of a card, held by the driver in the kernel."""

    name = NAME

    def __init__(self, limits: MemoryLimits, groups: Cgroups) -> None:
        self._limits = GroupLimits(limits)
        self._groups = groups

    def probe(self, traits: NodeTraits) -> Capability:
        """Works with the new driver, cgroup v2 and root."""
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
        """Make the group and limit it on every device that it shares.

        Raises
        ------
        LimitNotInForce
            When the group or the limit is refused.
        """
        if not held.fractions:
            return Injection()
        try:
            group = self._groups.make(held.slice.slice_id)
        except OSError as error:
            message = f"The control group of slice {held.slice.slice_id} cannot be made: {error}."
            raise LimitNotInForce(message) from error
        self._limits.put(held, group)
        return Injection(cgroup=group)

    def verify(self, held: Held) -> None:
        """Read every limit back.

        Raises
        ------
        LimitNotInForce
            When the driver names another one, or none.
        """
        group = self._groups.path(held.slice.slice_id)
        for device_id, memory_mib, words in self._limits.wrong(held, group):
            message = (
                f"The driver reports {words} for slice {held.slice.slice_id} on {device_id}, "
                f"not {memory_mib} MiB. Nothing starts on it: ask your admin to look at "
                "`gpucommons doctor`."
            )
            raise LimitNotInForce(message)

    def attach(self, held: Held, pid: int) -> None:
        """Move a process into the group.

        Raises
        ------
        LimitNotInForce
            When the kernel refuses.
        """
        if not held.fractions:
            return
        try:
            self._groups.move(held.slice.slice_id, pid)
        except ProcessLookupError:
            return  # gone already: it uses nothing
        except OSError as error:
            message = f"Process {pid} cannot be put under the limit of its slice: {error}."
            raise LimitNotInForce(message) from error

    def strays(self, held: Held, pids: Sequence[int]) -> frozenset[int]:
        """Processes outside the group."""
        if not held.fractions:
            return frozenset()
        return frozenset(pid for pid in pids if not self._groups.holds(held.slice.slice_id, pid))

    def measured(self, held: Held, used_mib: int) -> None:
        """The driver counts contexts into the limit by itself."""

    def resize(self, held: Held, memory_mib: int) -> None:
        """Set another limit: more at any time, less only down to what is in use.

        Raises
        ------
        CannotShrink
            When more is in use, with the numbers.
        LimitNotInForce
            When the driver refuses.
        """
        group = self._groups.path(held.slice.slice_id)
        self._limits.resize(held, group, memory_mib)

    def release(self, held: Held) -> None:
        """Take the reservation back, then remove the group."""
        group = self._groups.path(held.slice.slice_id)
        if not self._groups.exists(held.slice.slice_id):
            return
        self._limits.give_back(held, group)
        self._groups.remove(held.slice.slice_id)


def driver_limits(traits: NodeTraits) -> Capability:
    """Whether the driver limits memory by control group here."""
    if traits.simulated:
        return Capability(usable=False, reason="Simulated devices have no driver.")
    if traits.driver_branch < FIRST_DRIVER:
        return Capability(
            usable=False,
            reason=f"Needs driver {FIRST_DRIVER} or newer; here: {traits.driver or 'none'}.",
        )
    if traits.cgroup_parent is None:
        return Capability(usable=False, reason="Needs cgroup v2 and an agent that runs as root.")
    if not traits.memory_limits:
        return Capability(usable=False, reason="The driver refused a limit on a test group.")
    return Capability(usable=True, reason="The driver stops every slice at its memory.")
