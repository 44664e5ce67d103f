"""Libraries that programs load first: a tree's, so that memory it shares can be saved, and CRIU.

Compiled as the shim is. Where one is missing everything else works: without the tree's, what shares
memory through files without a name is refused (``multiprocessing``'s locks, queues, pools and arrays,
torch's data loaders), without that of CRIU every tree in a container with a system call filter is. The
refusal says so.
"""

from __future__ import annotations

from pathlib import Path

from gpucommons.gpu.shim import building


def library() -> Path | None:
    """What a tree's processes load; None where it was not built."""
    return _built(building.SEMAPHORES)


def for_criu() -> Path | None:
    """What CRIU loads; None where it was not built."""
    return _built(building.SECCOMP)


def _built(name: str) -> Path | None:
    path = building.PRELOADS / name
    return path if path.is_file() else None


__all__ = ["for_criu", "library"]
