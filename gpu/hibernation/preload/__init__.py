"""A library that a tree's processes load first, so that their semaphores can be saved.

Compiled as the shim is. Where it is missing everything else can still be saved: only what uses
named semaphores (``multiprocessing``'s locks, queues and pools) is refused, and the refusal says so.
"""

from __future__ import annotations

from pathlib import Path

from gpucommons.gpu.shim import building


def library() -> Path | None:
    """The compiled library; None where it was not built."""
    path = building.PRELOADS / building.SEMAPHORES
    return path if path.is_file() else None


__all__ = ["library"]
