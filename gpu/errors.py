"""Errors of the GPU part.

* GpuError
  * UnknownDevice
  * UnknownSlice
  * SliceTooSmall
  * SliceInUse
  * ShimUnavailable
  * LimitNotInForce
  * CannotShrink
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


class LimitNotInForce(GpuError):
    """The memory limit of this slice cannot be verified, so nothing starts on it."""


class CannotShrink(GpuError):
    """More memory is in use than the new limit would allow: free some first."""

    def __init__(
        self, message: str | None = None, *, used_mib: int = 0, wanted_mib: int = 0
    ) -> None:
        if message is None and used_mib:
            message = (
                f"The slice uses {used_mib} MiB, so it cannot be made as small as {wanted_mib} "
                "MiB: free memory first, or stop what runs in it."
            )
        super().__init__(message)


class BadAgentRequest(GpuError):
    """The node agent cannot read this request."""


class AgentUnavailable(GpuError):
    """The node agent does not answer; start it with `gpucommons up`."""
