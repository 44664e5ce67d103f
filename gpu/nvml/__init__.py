"""NVIDIA's management library. The only package that imports ``pynvml``."""

from gpucommons.gpu.nvml.limits import NvmlMemoryLimits
from gpucommons.gpu.nvml.telemetry import NvmlTelemetry

__all__ = ["NvmlMemoryLimits", "NvmlTelemetry"]
