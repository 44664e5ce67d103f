"""What a stopped notebook server keeps of its kernels, as it said itself; nothing is decided by it."""

from __future__ import annotations

from dataclasses import dataclass

from gpucommons.scheduler.core.model.evolving import quick


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class KeptKernels:
    """Whole kernels that can be woken, or variables of others."""

    kernels: int
    kernel_bytes: int
    variables: int
    variable_bytes: int
    #: Variables that could not be stored.
    variables_lost: int
    #: UTC; later it is removed.
    until_ms: int
