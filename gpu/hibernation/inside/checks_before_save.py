"""Whether a process tree can be saved and woken: what it holds, and whether the disk has space for it.

Checked before CRIU begins, which would say it less clearly, or only at the wake, when it is too late.
Each check answers with the sentence of a refusal (:mod:`..refusals`), or with ``None``.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from gpucommons.gpu.hibernation import refusals
from gpucommons.gpu.hibernation.inside import local_sockets, processes, shared_memory
from gpucommons.gpu.parking.processes import part_of_gpu

_PROC = Path("/proc")
#: Memory (null, zero, random, …) and terminals: CRIU knows these devices.
_KNOWN_DEVICES = frozenset({1, 4, 5, *range(136, 144)})
#: Descriptors that CRIU needs in each process while it wakes it.
_SPARE_DESCRIPTORS = 128
#: Left free on the disk of any saved tree: what writes there meanwhile needs some. Who keeps images in
#: users' homes leaves more: `SPARE_DISK_BYTES` of the Lab extension's `keeping_limits`.
_SPARE_DISK_BYTES = 64 << 20


def mapped_slice() -> str | None:
    """What lives no longer than the server: a process that has it mapped could not be woken."""
    for pid in processes.numbers():
        path = part_of_gpu(pid)
        if path is not None:
            return refusals.holds_slice(path)
    return None


def unsavable_process() -> str | None:
    """The first thing that cannot be saved, in a sentence; None when nothing is known."""
    for pid in processes.numbers():
        with suppress(OSError):
            because = _in_files_of(pid)
            if because is not None:
                return because
    return unaccepted_connection()


def unaccepted_connection() -> str | None:
    """Asked again when everything stands still: a call may have been made meanwhile."""
    is_there = local_sockets.has_unaccepted_connection(processes.numbers())
    return refusals.CALLS_OUTSIDE if is_there else None


def too_little_space(partial: Path, most_bytes: int | None) -> str | None:
    """The image needs more than it may take, or than the disk has free. ``most_bytes`` = None: any size may."""
    disk = os.statvfs(partial)
    free = disk.f_bavail * disk.f_frsize
    needed = processes.memory_bytes() + processes.removed_files_bytes() + shared_memory.used_bytes()
    if most_bytes is not None and needed > most_bytes:
        return refusals.too_large(needed, most_bytes)
    if free < needed + _SPARE_DISK_BYTES:
        return refusals.disk_too_full(needed, free)
    return None


def _in_files_of(pid: int) -> str | None:
    highest = 0
    for entry in (_PROC / str(pid) / "fd").iterdir():
        highest = max(highest, int(entry.name))
        with suppress(OSError):
            found = entry.stat()
            if stat.S_ISCHR(found.st_mode) and os.major(found.st_rdev) not in _KNOWN_DEVICES:
                return refusals.holds_device(str(entry.readlink()))
            if stat.S_ISBLK(found.st_mode):
                return refusals.holds_device(str(entry.readlink()))
    limit = _most_descriptors(pid)
    if highest + _SPARE_DESCRIPTORS > limit:
        return refusals.too_many_files(limit)
    return None


def _most_descriptors(pid: int) -> int:
    for line in (_PROC / str(pid) / "limits").read_text(encoding="ascii").splitlines():
        if line.startswith("Max open files"):
            return int(line.split()[3])
    return 1 << 30
