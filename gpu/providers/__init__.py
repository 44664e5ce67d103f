"""Sharing providers: from a share of a device to what a workload gets."""

from gpucommons.gpu.providers.base import Capability, Grant, Injection, NodeTraits, SharingProvider
from gpucommons.gpu.providers.stack import (
    PROVIDERS,
    ProviderStack,
    injection,
    isolation_sentence,
    no_gpu,
    provider_stack,
    quantize,
)

__all__ = [
    "PROVIDERS",
    "Capability",
    "Grant",
    "Injection",
    "NodeTraits",
    "ProviderStack",
    "SharingProvider",
    "injection",
    "isolation_sentence",
    "no_gpu",
    "provider_stack",
    "quantize",
]
