"""A slice in the words of a pod, whoever makes it: our node agent, or another system of the cluster.

Pure. On a cluster the devices of a slice are slots; what a program is told are the devices that the
slots are bound to, or nothing where the device plugin or the other system says it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpucommons.gpu.providers import Injection, PodParts
from gpucommons.gpu.providers.cluster.cluster import PodWish
from gpucommons.gpu.providers.cluster.pods import (
    CSI_DRIVER,
    POD_PROVIDERS,
    SOCKET_VARIABLE,
    foreign_injection,
    pod_injection,
)
from gpucommons.scheduler.models import LeaseView, SliceView
from gpucommons.spawner.pods.pod import NOTEBOOK, OF_THE_PLUGIN, PLUGIN_RESOURCE
from gpucommons.spawner.server_environment import devices, gpu_slice

_REAL_DEVICES = ("GPU-", "MIG-")


class NotBound(Exception):
    """It is not known which device the slice is on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceMakers:
    """Names of what makes slices in this cluster."""

    #: The node agent as a driver of volumes.
    driver: str = CSI_DRIVER
    #: DeviceClass of the GPUs.
    device_class: str = "gpu.nvidia.com"


def slice_injection(lease: LeaseView, held: SliceView, makers: SliceMakers) -> Injection:
    """What the pod gets.

    Raises
    ------
    NotBound
        When a program could not be told which device is its own.
    """
    if held.provider:
        return _foreign(lease, held, makers)
    if held.plugin_devices:
        return _of_the_plugin(held, makers)
    named = _named(held)
    if named is None:
        message = (
            f"The GPU that was chosen on {held.node} is not bound to its slot yet:"
            " try again in a minute."
        )
        raise NotBound(message)
    return _ours(named, makers)


def _named(held: SliceView) -> SliceView | None:
    """The slice on devices instead of slots; None where they are not known."""
    if held.visible_devices:
        names = held.visible_devices
        return held.model_copy(
            update={"device_ids": names, "device_indices": list(range(len(names)))}
        )
    real = all(name.startswith(_REAL_DEVICES) for name in held.device_ids)
    return held if real or held.simulated else None


def _ours(held: SliceView, makers: SliceMakers) -> Injection:
    return pod_injection(
        gpu_slice(held), devices(held), isolation=held.isolation, driver=makers.driver
    )


def _of_the_plugin(held: SliceView, makers: SliceMakers) -> Injection:
    given = _ours(held, makers)
    env = {name: value for name, value in given.env.items() if name not in OF_THE_PLUGIN}
    limits = {**given.pod.limits, PLUGIN_RESOURCE: str(held.plugin_devices)}
    if held.isolation == "none":
        # Whole GPUs need no agent, and where there is none nobody would mount the folder.
        env.pop(SOCKET_VARIABLE, None)
        return replace(given, env=env, pod=PodParts(limits=limits))
    return replace(given, env=env, pod=replace(given.pod, limits=limits))


def _foreign(lease: LeaseView, held: SliceView, makers: SliceMakers) -> Injection:
    # Simulated devices are nobody's but our agent's.
    named = None if held.simulated else _named(held)
    wish = PodWish(
        container=NOTEBOOK,
        queue=lease.team,
        claim=f"gpucommons-{held.slice_id}",
        device_class=makers.device_class,
        isolation=held.isolation,
    )
    known = () if named is None else devices(named)
    return foreign_injection(POD_PROVIDERS[held.provider], gpu_slice(named or held), known, wish)
