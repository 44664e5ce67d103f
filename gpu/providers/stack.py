"""Which providers make the slices of a node, strongest first, and what they say together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpucommons.gpu.devices import WHOLE_MILLI_GPU, Device
from gpucommons.gpu.errors import SliceTooSmall
from gpucommons.gpu.providers.base import Grant, Injection, NodeTraits, SharingProvider
from gpucommons.gpu.providers.exclusive import NO_DEVICE, ExclusiveProvider
from gpucommons.gpu.providers.hints import HintsProvider
from gpucommons.gpu.slices import GpuSlice, SliceId, format_milli_gpu

#: Every provider there is, strongest first.
PROVIDERS: tuple[SharingProvider, ...] = (ExclusiveProvider(), HintsProvider())

_SENTENCES: Mapping[str, str] = {
    "hardware": "The hardware keeps your slice apart: no neighbour can use its memory.",
    "kernel": (
        "The driver stops every slice at its memory. Computing time is shared with your "
        "neighbours and not guaranteed."
    ),
    "driver": (
        "The driver limits the memory of each process, not of the slice. Computing time is "
        "shared with your neighbours and not guaranteed."
    ),
    "cooperative": (
        "A library in each process keeps to the slice's memory; a program can get around it. "
        "Computing time is shared with your neighbours and not guaranteed."
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
    providers: tuple[SharingProvider, ...]

    def quantize(self, device: Device, milli_gpu: int) -> Grant:
        """What a share of this device comes to, by the strongest provider that makes it.

        Raises
        ------
        SliceTooSmall
            When nobody makes so small a slice.
        """
        for provider in self.providers:
            grant = provider.quantize(device, milli_gpu, self.traits)
            if grant is not None:
                return grant
        message = (
            f"{format_milli_gpu(milli_gpu)} is no share of one {device.kind}: "
            f"ask for more than 0 and at most {WHOLE_MILLI_GPU} thousandths of it."
        )
        raise SliceTooSmall(message)

    def injection(self, gpu_slice: GpuSlice, devices: Sequence[Device]) -> Injection:
        """What all providers give to the workload; the strongest has the last word."""
        env: dict[str, str] = {}
        for provider in reversed(self.providers):
            env |= provider.injection(gpu_slice, devices, self.traits).env
        return Injection(env=env)

    def release(self, slice_id: SliceId) -> None:
        """Undo what every provider made."""
        for provider in self.providers:
            provider.release(slice_id)


def provider_stack(traits: NodeTraits) -> ProviderStack:
    """The providers that say they work on such a node."""
    return ProviderStack(
        traits=traits,
        providers=tuple(p for p in PROVIDERS if p.probe(traits).usable),
    )


def quantize(device: Device, milli_gpu: int) -> Grant:
    """What a share of this device comes to on a machine that confines nobody.

    Raises
    ------
    SliceTooSmall
        When nobody makes so small a slice.
    """
    return provider_stack(NodeTraits(simulated=device.simulated)).quantize(device, milli_gpu)


def injection(gpu_slice: GpuSlice, devices: Sequence[Device]) -> Injection:
    """What a workload gets for this slice on a machine that confines nobody.

    Of the devices only id, index and ``simulated`` are read. A slice without shares is
    :func:`no_gpu`.
    """
    if not gpu_slice.shares:
        return no_gpu()
    simulated = any(device.simulated for device in devices)
    return provider_stack(NodeTraits(simulated=simulated)).injection(gpu_slice, devices)


def no_gpu() -> Injection:
    """What a workload without a GPU gets: the sight of none."""
    return Injection(env={"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": NO_DEVICE})


def isolation_sentence(mode: str) -> str:
    """What an isolation mode means, in plain words; an unknown mode promises nothing."""
    return _SENTENCES.get(mode, _SENTENCES["none"])
