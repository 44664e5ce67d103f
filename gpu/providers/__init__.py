"""Sharing providers: from a share of a device to what a workload gets."""

from gpucommons.gpu.providers.base import (
    Capability,
    Grant,
    Held,
    Injection,
    MigProfile,
    NodeTraits,
    PodParts,
    SharingProvider,
)
from gpucommons.gpu.providers.stack import (
    PLAIN,
    ProviderStack,
    capabilities,
    injection,
    isolation_sentence,
    no_gpu,
    provider_stack,
    quantize,
)

__all__ = [
    "PLAIN",
    "Capability",
    "Grant",
    "Held",
    "Injection",
    "MigProfile",
    "NodeTraits",
    "PodParts",
    "ProviderStack",
    "SharingProvider",
    "capabilities",
    "injection",
    "isolation_sentence",
    "no_gpu",
    "provider_stack",
    "quantize",
]
