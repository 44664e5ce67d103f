"""What a pod gets to use its slice, made by our node agent or by another system of the cluster.

Pure: nothing is asked of the node, because the pod is made before its node is known to be ready. The
limits come from the scheduler through the agent; the pod carries only the name of its slice. A pod
whose slice is not in force does not start: the agent's volume refuses to be mounted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpucommons.gpu.devices.devices import Device
from gpucommons.gpu.providers.base import Held, Injection, NodeTraits, PodParts
from gpucommons.gpu.providers.cluster.cluster import PodProvider, PodWish
from gpucommons.gpu.providers.cluster.dra import DraProvider
from gpucommons.gpu.providers.cluster.hami import HamiProvider
from gpucommons.gpu.providers.cluster.kai import KaiProvider
from gpucommons.gpu.providers.node.hints import HintsProvider
from gpucommons.gpu.providers.stack import no_gpu, provider_stack
from gpucommons.gpu.slices.slices import GpuSlice

#: Name of the agent as the driver of volumes.
CSI_DRIVER = "slices.gpucommons.io"
#: Where a slice's folder lies in every pod.
MOUNT_PATH = "/run/gpucommons/slice"
#: What a pod says of itself in its volume: one of the two.
SLICE_ATTRIBUTE = "slice"
ATTEMPT_ATTRIBUTE = "attempt"
#: Beside the attempt: the ranks of the workers of the pod's Job, by completion index, as ``0,4-7``.
RANKS_ATTRIBUTE = "ranks"
#: Where the samples of the slice are served.
SOCKET_VARIABLE = "GPUCOMMONS_SLICE_SOCKET"

#: Other systems, by the word that a pool's settings have for them.
POD_PROVIDERS: Mapping[str, PodProvider] = {
    provider.name: provider for provider in (KaiProvider(), HamiProvider(), DraProvider())
}

_VOLUME = "gpucommons-slice"
#: A pod's own search path takes the place of its image's; these are where images look for CUDA.
_USUAL_LIBRARIES = ("/usr/local/nvidia/lib", "/usr/local/nvidia/lib64")


def pod_injection(
    gpu_slice: GpuSlice, devices: Sequence[Device], *, isolation: str, driver: str = CSI_DRIVER
) -> Injection:
    """What a pod gets for this slice; ``devices`` are those of the slice, by UUID.

    ``isolation`` is what the node's agent reports for them. A slice without shares is a pod without
    a GPU.
    """
    if not gpu_slice.shares:
        return no_gpu()
    held = Held(slice=gpu_slice, devices=tuple(devices))
    given = provider_stack(_traits(devices, isolation)).prepare(held)
    return slice_folder({SLICE_ATTRIBUTE: gpu_slice.slice_id}, driver=driver).over(
        _limits(held, isolation).over(given)
    )


def foreign_injection(
    provider: PodProvider,
    gpu_slice: GpuSlice,
    devices: Sequence[Device],
    wish: PodWish,
) -> Injection:
    """What a pod gets where another system makes the slice: that names the device and limits it.

    Of ours the pod has the name and size of its slice, and its folder where we know the devices, so
    that its use is seen.
    """
    if not gpu_slice.shares:
        return no_gpu()
    held = Held(slice=gpu_slice, devices=tuple(devices))
    named = HintsProvider().prepare(held, _traits(devices, wish.isolation))
    given = provider.injection(gpu_slice, devices, wish).over(named)
    known = {device.device_id for device in devices}
    if all(share.device_id in known for share in gpu_slice.shares):
        given = given.over(slice_folder({SLICE_ATTRIBUTE: gpu_slice.slice_id}))
    return given


def slice_folder(attributes: Mapping[str, str], *, driver: str = CSI_DRIVER) -> Injection:
    """The slice's folder as a volume, and where programs find what is in it.

    ``attributes`` name the slice, or the attempt whose worker the pod is: ``{"slice": …}`` or
    ``{"attempt": …}``.
    """
    volume: Mapping[str, Any] = {
        "name": _VOLUME,
        "csi": {"driver": driver, "volumeAttributes": dict(attributes)},
    }
    # The agent mounts it read-only but for the slice's own ledger.
    mount: Mapping[str, Any] = {"name": _VOLUME, "mountPath": MOUNT_PATH}
    return Injection(
        env={SOCKET_VARIABLE: f"{MOUNT_PATH}/usage.sock"},
        pod=PodParts(volumes=(volume,), volume_mounts=(mount,)),
    )


def search_path() -> str:
    """``LD_LIBRARY_PATH`` of a pod on a node whose slices have the interposer."""
    return ":".join((f"{MOUNT_PATH}/shim", *_USUAL_LIBRARIES))


def _traits(devices: Sequence[Device], isolation: str) -> NodeTraits:
    return NodeTraits(
        simulated=any(device.simulated for device in devices),
        devices_confined=True,
        shim=isolation == "cooperative",
        memory_limits=isolation == "kernel",
    )


def _limits(held: Held, isolation: str) -> Injection:
    if not held.fractions:
        return Injection()
    if isolation == "kernel":
        # The container toolkit sets the driver's limit; one of the two alone it ignores.
        memory_mib = str(held.slice.memory_mib)
        return Injection(
            env={"NVIDIA_GPU_MEMORY_REQUEST": memory_mib, "NVIDIA_GPU_MEMORY_LIMIT": memory_mib}
        )
    if isolation == "cooperative":
        # What the pod sets itself comes behind it.
        return Injection(prepend={"LD_LIBRARY_PATH": search_path()})
    return Injection()
