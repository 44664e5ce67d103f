"""Finding out what this node can enforce: the one place that looks, for the agent and the doctor."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpucommons.gpu import shim
from gpucommons.gpu.devices.devices import Device
from gpucommons.gpu.devices.memory_limits import MemoryLimits
from gpucommons.gpu.errors import GpuError
from gpucommons.gpu.linux.control_groups import find_mount
from gpucommons.gpu.linux.pod_cgroups import PodCgroups
from gpucommons.gpu.node.telemetry import Telemetry
from gpucommons.gpu.plugins import PROVIDERS, BrokenPlugin, lacking, take_in
from gpucommons.gpu.providers.base import NodeTraits, SharingProvider
from gpucommons.gpu.providers.node.cgroup_mem import FIRST_DRIVER, CgroupMemProvider
from gpucommons.gpu.providers.node.exclusive import ExclusiveProvider
from gpucommons.gpu.providers.node.hints import HintsProvider
from gpucommons.gpu.providers.node.mig import MigProvider
from gpucommons.gpu.providers.node.mps import MpsProvider
from gpucommons.gpu.providers.node.pod_mem import PodMemProvider
from gpucommons.gpu.providers.node.shim import ShimProvider
from gpucommons.gpu.providers.node.watchdog import WatchdogProvider
from gpucommons.gpu.slices.cgroups import Cgroups
from gpucommons.gpu.slices.slice_folders import SliceFolders
from gpucommons.gpu.slices.slices import SliceId

_LOG = logging.getLogger(__name__)
#: A limit is tried on a group of this name.
_TRIAL = SliceId("gpucommons-trial")
_TRIAL_MIB = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Ground:
    """A node as it was found: its traits, and the providers that could use them."""

    traits: NodeTraits
    #: Strongest first.
    providers: tuple[SharingProvider, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Wishes:
    """What an admin decided."""

    watched: bool = True
    #: Everything that uses a slice here runs in a container that opens no other device file.
    devices_confined: bool = False
    #: Where cgroup v2 is mounted; None = wherever it is found.
    cgroup_mount: Path | None = None


def survey(telemetry: Telemetry, folders: SliceFolders, wishes: Wishes) -> Ground:
    """Look at this node; a test group is made and removed where a limit could work."""
    return _with_plugins(_survey(telemetry, folders, wishes))


def _with_plugins(ground: Ground) -> Ground:
    """Providers of other packages come first: an admin installed them for this node."""

    def accept(name: str, factory: object) -> SharingProvider:
        provider: SharingProvider = factory()  # type: ignore[operator] # what else it is fails here
        missing = lacking(provider, SharingProvider)
        if missing or provider.name != name or name in {one.name for one in ground.providers}:
            why = f"it lacks {', '.join(missing)}" if missing else "its name is not its own"
            message = f"The provider {name} is left out: {why}."
            raise BrokenPlugin(message)
        provider.probe(ground.traits)
        return provider

    found = take_in(PROVIDERS, accept)
    for trouble in found.troubles:
        _LOG.warning("%s", trouble)
    return replace(ground, providers=(*found.usable.values(), *ground.providers))


def _survey(telemetry: Telemetry, folders: SliceFolders, wishes: Wishes) -> Ground:
    devices = telemetry.devices()
    simulated = bool(devices) and all(device.simulated for device in devices)
    if simulated or not devices:
        return Ground(
            traits=NodeTraits(simulated=simulated, devices_confined=folders.in_pods),
            providers=(ExclusiveProvider(), HintsProvider()),
        )
    return _survey_real(telemetry, folders, wishes)


def _survey_real(telemetry: Telemetry, folders: SliceFolders, wishes: Wishes) -> Ground:
    limits, driver = telemetry.limits(), telemetry.driver
    mount = wishes.cgroup_mount or find_mount()
    groups = Cgroups(mount) if mount is not None and _may_make_groups(mount) else None
    missing = shim.probe()
    branch = NodeTraits(driver=driver).driver_branch
    takes_limits = (
        groups is not None
        and limits is not None
        and branch >= FIRST_DRIVER
        and takes_a_limit(limits, groups, telemetry.devices())
    )
    traits = NodeTraits(
        devices_confined=wishes.devices_confined,
        driver=driver,
        cgroup_parent=None if groups is None else str(groups.parent),
        memory_limits=takes_limits,
        shim=missing is None,
        shim_reason=missing or "",
        watched=wishes.watched,
        mig_profiles=telemetry.mig_profiles,
    )
    limited: SharingProvider | None = None
    if mount is not None and groups is not None and limits is not None:
        # A pod's processes stay in the group that the kubelet made.
        limited = (
            PodMemProvider(limits, PodCgroups(mount))
            if folders.in_pods
            else CgroupMemProvider(limits, groups)
        )
    return Ground(traits=traits, providers=_in_order(folders, limited))


def _in_order(
    folders: SliceFolders, limited: SharingProvider | None
) -> tuple[SharingProvider, ...]:
    """Who offers isolation there, the strongest first."""
    return (
        MigProvider(),
        ExclusiveProvider(),
        *(() if limited is None else (limited,)),
        ShimProvider(folders, own_uid=os.geteuid()),
        # Its daemon is another pod's: no pipe of it is in the pods that use slices.
        *(() if folders.in_pods else (MpsProvider(),)),
        WatchdogProvider(),
        HintsProvider(),
    )


def _may_make_groups(mount: Path) -> bool:
    return os.geteuid() == 0 and os.access(mount, os.W_OK)


def takes_a_limit(limits: MemoryLimits, groups: Cgroups, devices: Sequence[Device]) -> bool:
    """Whether the driver takes a limit: it says so only when it is asked to."""
    cards = [device for device in devices if not device.device_id.startswith("MIG-")]
    try:
        group = groups.make(_TRIAL)
        try:
            for card in cards:
                limits.set(card.device_id, group, soft_mib=0, hard_mib=_TRIAL_MIB)
            return bool(cards)
        finally:
            groups.remove(_TRIAL)
    except (GpuError, OSError):
        return False
