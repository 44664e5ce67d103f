"""Errors of the GPU part.

* GpuError
  * UnknownDevice
  * UnknownSlice
  * SliceTooSmall
  * SliceInUse
  * ShimUnavailable
  * BadAgentRequest
  * AgentUnavailable
"""

from __future__ import annotations


class GpuError(Exception):
    """Something about a GPU went wrong."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class UnknownDevice(GpuError):
    """There is no such device on this node."""


class UnknownSlice(GpuError):
    """The node agent does not know this slice."""


class SliceTooSmall(GpuError):
    """A slice must leave room for a CUDA context: ask for a larger share."""


class SliceInUse(GpuError):
    """A slice of this name is open with other shares: close it first."""


class ShimUnavailable(GpuError):
    """Slices cannot have the shim on this machine."""


class BadAgentRequest(GpuError):
    """The node agent cannot read this request."""


class AgentUnavailable(GpuError):
    """The node agent does not answer; start it with `gpucommons up`."""
