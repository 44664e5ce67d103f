"""Which calls of a driver may give memory past the shim.

A driver newer than this package may have new ways to allocate. They are let through, as every
call is that the shim does not know; this names them, for ``gpucommons doctor`` and for whoever
looks after the list of hooks.
"""

from __future__ import annotations

import re
from pathlib import Path

from gpucommons.gpu.shim import building

#: Names of calls that give memory, make something that holds memory, or load code.
_ALLOCATING = re.compile(
    rb"\0(cu(?:Array|Array3D|Ctx|External|Graph|GreenCtx|Import|Ipc|Library|Link|LogicalEndpoint"
    rb"|Mem|MipmappedArray|Module|Multicast)"
    rb"(?!Get|\w+Params)\w*?(?:AddMem|AddNode|Alloc|Create|Import|Load|OpenMem|SharedMem)\w*)(?=\0)"
)
_HOOK = re.compile(r"\bX\((cu\w+),")

#: Calls that are known and let through, and why.
LET_THROUGH = {
    "memory of the host": ("cuMemAllocHost", "cuMemAllocHost_v2", "cuMemHostAlloc"),
    "addresses, tickets and plans, no memory": (
        "cuGraphCreate", "cuIpcOpenEventHandle", "cuLinkCreate", "cuLinkCreate_v2",
        "cuImportExternalSemaphore", "cuLogicalEndpointCreate", "cuLogicalEndpointImport",
        "cuMemPoolCreate", "cuMemPoolImportFromShareableHandle", "cuMulticastCreate",
        "cuGraphConditionalHandleCreate",
    ),
    "contexts and code: the watchdog sees them in the driver's numbers": (
        "cuCtxCreate", "cuCtxCreate_v2", "cuCtxCreate_v3", "cuCtxCreate_v4", "cuGreenCtxCreate",
        "cuGreenCtxStreamCreate", "cuLibraryLoadData", "cuLibraryLoadFromFile", "cuModuleLoad",
        "cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleLoadFatBinary",
    ),
    "memory of another program, charged where it was made": ("cuImportExternalMemory",),
    "nodes of graphs: their memory is taken at launch, inside the driver": (
        "cuGraphAddNode", "cuGraphAddNode_v2", "cuGraphAddMemFreeNode", "cuGraphAddMemcpyNode",
        "cuGraphAddMemsetNode",
    ),
}  # fmt: skip


def hooks(sources: Path = building.SOURCES) -> frozenset[str]:
    """The calls that the shim answers."""
    return frozenset(_HOOK.findall((sources / "driver.h").read_text(encoding="utf-8")))


def unknown_calls(names: bytes) -> tuple[str, ...]:
    """Allocating calls among these names (each between zero bytes) that nobody has judged."""
    known = hooks().union(*LET_THROUGH.values())
    found = {match.decode("ascii") for match in _ALLOCATING.findall(names)}
    return tuple(sorted(found - known))


def audit(driver: Path) -> tuple[str, ...]:
    """The same for a driver's library: its own table of names is part of the file.

    Raises
    ------
    OSError
        When the library cannot be read.
    """
    return unknown_calls(driver.read_bytes())
