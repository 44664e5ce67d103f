"""The slice's own driver libraries: they keep the programs that use them within the slice.

Cooperative, not a wall: a program that loads the driver by its full path gets around them, and
the watchdog is what notices. ``src/`` is the C, ``folder`` what the agent does with it.
"""

from gpucommons.gpu.shim.drivers import Drivers, find_drivers
from gpucommons.gpu.shim.folder import (
    Overlay,
    library_path,
    overlays,
    prepare,
    probe,
    read_ledger,
    read_limit,
    release,
    resize,
    shimmed,
)
from gpucommons.gpu.shim.layout import Holder, LedgerView

__all__ = [
    "Drivers",
    "Holder",
    "LedgerView",
    "Overlay",
    "find_drivers",
    "library_path",
    "overlays",
    "prepare",
    "probe",
    "read_ledger",
    "read_limit",
    "release",
    "resize",
    "shimmed",
]
