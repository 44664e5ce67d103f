"""Which providers make the slices of a node, strongest first, and what they say together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, Device
from gpucommons.gpu.errors import SliceTooSmall
from gpucommons.gpu.providers.base import (
    Capability,
    Grant,
    Held,
    Injection,
    NodeTraits,
    SharingProvider,
)
from gpucommons.gpu.providers.node.exclusive import NO_DEVICE, ExclusiveProvider
from gpucommons.gpu.providers.node.hints import HintsProvider
from gpucommons.gpu.providers.node.mig import MigProvider
from gpucommons.gpu.providers.node.watchdog import WatchdogProvider
from gpucommons.gpu.slices.slices import GpuSlice, MpsDaemon, format_milli_gpu
from gpucommons.gpu.slices.usage import ISOLATION_MODES

#: Providers that make nothing outside the workload, so that anybody may ask them anywhere.
PLAIN: tuple[SharingProvider, ...] = (
    MigProvider(),
    ExclusiveProvider(),
    WatchdogProvider(),
    HintsProvider(),
)
#: Of these only the strongest that works limits the memory of a slice; the others would say the
#: same again, later.
MEMORY_LAYERS = ("cgroup_mem", "shim")

#: Modes whose limit speaks of one card: a slice with shares of several is not bound by them.
_OF_ONE_CARD = ("driver", "cooperative")

ISOLATION_SENTENCES: Mapping[str, str] = {
    "hardware": "The hardware keeps slices apart: no neighbour in theirs can use your memory.",
    "kernel": (
        "The driver stops every slice at its memory. Computing time is shared with your "
        "neighbours and not guaranteed."
    ),
    "driver": (
        "The driver limits the memory of each process, not of the slice. Computing time is "
        "shared with your neighbours and not guaranteed."
    ),
    "cooperative": (
        "Programs see only their own slice and keep to its memory; one that is written to can get "
        "around that. Computing time is shared with your neighbours and not guaranteed."
    ),
    "watched": (
        "Memory is watched, not limited on this node: who stays over their share is warned, "
        "then stopped. Computing time is shared and not guaranteed."
    ),
    "none": (
        "Memory is not limited on this node: nothing stops a neighbour from using more than "
        "their share. Computing time is shared and not guaranteed."
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderStack:
    """The providers that work on one node."""

    traits: NodeTraits
    #: Strongest first.
    providers: tuple[SharingProvider, ...]

    def quantize(self, device: Device, milli_gpu: int, mps: MpsDaemon | None = None) -> Grant:
        """What a share of this device comes to, with the strongest isolation in force for it.

        ``mps`` is the daemon of a pool that opted in.

        Raises
        ------
        SliceTooSmall
            When nobody makes so small a slice.
        """
        traits = replace(self.traits, mps=mps)
        grants = [
            grant
            for provider in self.providers
            if (grant := provider.quantize(device, milli_gpu, traits)) is not None
        ]
        if not grants:
            message = (
                f"{format_milli_gpu(milli_gpu)} is no share of one {device.kind}: "
                f"ask for more than 0 and at most {WHOLE_MILLI_GPU} thousandths of it."
            )
            raise SliceTooSmall(message)
        return min(grants, key=lambda grant: ISOLATION_MODES.index(grant.isolation))

    def isolation_of(self, held: Held) -> str:
        """The weakest isolation among the devices of a slice, as far as providers promise it."""
        known = {device.device_id: device for device in held.devices}
        modes = [
            self.quantize(known[share.device_id], share.milli_gpu, held.slice.mps).isolation
            for share in held.slice.shares
            if share.device_id in known
        ]
        weakest = max(modes, key=ISOLATION_MODES.index, default="none")
        if len(held.fractions) > 1 and weakest in _OF_ONE_CARD:
            return "watched" if self.traits.watched else "none"
        return weakest

    def prepare(self, held: Held) -> Injection:
        """Make the slice; the strongest has the last word on what the workload gets.

        Raises
        ------
        LimitNotInForce
            When a limit cannot be set or does not read back.
        """
        given = Injection()
        for provider in reversed(self.providers):
            given = provider.prepare(held, self.traits).over(given)
        self.verify(held)
        return given

    def verify(self, held: Held) -> None:
        """Read everything back that ``prepare`` set.

        Raises
        ------
        LimitNotInForce
            When something is not in force.
        """
        for provider in self.providers:
            provider.verify(held)

    def attach(self, held: Held, pid: int) -> None:
        """Put a process under every limit of its slice.

        Raises
        ------
        LimitNotInForce
            When it cannot be.
        """
        for provider in self.providers:
            provider.attach(held, pid)

    def strays(self, held: Held, pids: Sequence[int]) -> frozenset[int]:
        """Processes of the slice that some limit does not bind."""
        return frozenset[int]().union(*(p.strays(held, pids) for p in self.providers))

    def measured(self, held: Held, used_mib: int) -> None:
        """Tell what the driver measured of the slice."""
        for provider in self.providers:
            provider.measured(held, used_mib)

    def resize(self, held: Held, memory_mib: int) -> None:
        """Change the memory of a slice in use.

        Raises
        ------
        CannotShrink
            When more than that is in use.
        """
        for provider in self.providers:
            provider.resize(held, memory_mib)

    def release(self, held: Held) -> None:
        """Undo what every provider made."""
        for provider in self.providers:
            provider.release(held)


def provider_stack(
    traits: NodeTraits, providers: Sequence[SharingProvider] = PLAIN
) -> ProviderStack:
    """The providers that say they work on such a node, and of the memory layers the strongest."""
    usable: list[SharingProvider] = []
    has_layer = False
    for provider in providers:
        is_layer = provider.name in MEMORY_LAYERS
        if not provider.probe(traits).usable or (is_layer and has_layer):
            continue
        has_layer = has_layer or is_layer
        usable.append(provider)
    return ProviderStack(traits=traits, providers=tuple(usable))


def capabilities(
    traits: NodeTraits, providers: Sequence[SharingProvider]
) -> Mapping[str, Capability]:
    """What every provider says about such a node, by name."""
    return {provider.name: provider.probe(traits) for provider in providers}


def quantize(device: Device, milli_gpu: int) -> Grant:
    """What a share of this device comes to on a machine that confines nobody.

    Raises
    ------
    SliceTooSmall
        When nobody makes so small a slice.
    """
    return provider_stack(NodeTraits(simulated=device.simulated)).quantize(device, milli_gpu)


def injection(gpu_slice: GpuSlice, devices: Sequence[Device]) -> Injection:
    """What a workload gets for this slice where no node agent prepares it.

    Of the devices only id, index and ``simulated`` are read. A slice without shares is
    :func:`no_gpu`.
    """
    if not gpu_slice.shares:
        return no_gpu()
    simulated = any(device.simulated for device in devices)
    held = Held(slice=gpu_slice, devices=tuple(devices))
    return provider_stack(NodeTraits(simulated=simulated)).prepare(held)


def no_gpu() -> Injection:
    """What a workload without a GPU gets: the sight of none."""
    return Injection(env={"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": NO_DEVICE})


def isolation_sentence(mode: str) -> str:
    """What an isolation mode means, in plain words; an unknown mode promises nothing."""
    return ISOLATION_SENTENCES.get(mode, ISOLATION_SENTENCES["none"])
