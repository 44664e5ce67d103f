"""``GpuMonitor()``: the slice of this notebook, live.

The page draws it from the server's WebSocket, not from the kernel: it moves while a cell runs, and
it is not activity (a kernel that sent numbers every second would never be idle). Where the page has
no such socket, *Refresh* asks the kernel.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from gpucommons.gpu.slices.slices import format_milli_gpu
from gpucommons.labextension.server_context import ServerContext
from gpucommons.labextension.widgets.surroundings import connect, is_in_job, newest_sample
from gpucommons.scheduler.client import calls
from gpucommons.scheduler.errors import SchedulerError
from gpucommons.scheduler.models import SliceView

_FOLDER = Path(__file__).parent
NO_DATA = "no GPU data"


class GpuMonitor(anywidget.AnyWidget):
    """A tile with memory, use and their last five minutes."""

    _esm = _FOLDER / "monitor.js"
    _css = _FOLDER / "widgets.css"

    #: What the kernel knew when it was last asked; the page's own socket is newer.
    text = traitlets.Unicode().tag(sync=True)

    def __init__(self, *, environ: Mapping[str, str] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._environ = os.environ if environ is None else environ
        self.on_msg(self._on_message)
        if not is_in_job(self._environ):
            self.refresh()

    def refresh(self) -> str:
        """Ask slice and scheduler once."""
        self.text = describe(self._slice(), newest_sample(self._context.slice_socket))
        return self.text

    @property
    def _context(self) -> ServerContext:
        return ServerContext.from_environment(self._environ)

    def _slice(self) -> SliceView | None:
        try:
            with connect(self._environ) as scheduler:
                return scheduler.send(calls.my_lease(self._context.server_name)).slice
        except SchedulerError:
            return None

    def _on_message(self, _widget: object, message: object, _buffers: object) -> None:
        if message == "refresh":
            self.refresh()

    def __repr__(self) -> str:
        """What to read where nothing can be drawn."""
        return f"GpuMonitor: {self.text}" if self.text else ""


def describe(held: SliceView | None, sample: Mapping[str, Any] | None) -> str:
    """One line: ``½ of A100-40: 12.6 of 19.4 GiB, 74 %``."""
    parts = []
    if held is not None:
        simulated = " (simulated)" if held.simulated else ""
        parts.append(f"{format_milli_gpu(held.milli_gpu)} of {held.gpu_kind}{simulated}")
    parts.append(_numbers(sample))
    return ": ".join(parts)


def _numbers(sample: Mapping[str, Any] | None) -> str:
    if sample is None:
        return NO_DATA
    used, limit = sample.get("memory_used_mib"), sample.get("memory_limit_mib")
    percent = sample.get("compute_percent")
    if used is None and percent is None:
        return NO_DATA
    memory = f"{used / 1024:.1f} of {limit / 1024:.1f} GiB" if used is not None and limit else ""
    compute = f"{percent} %" if percent is not None else ""
    return ", ".join(part for part in (memory, compute) if part)
