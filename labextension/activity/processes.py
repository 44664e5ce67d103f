"""The processes of a notebook server, and what each has computed, read and written so far."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise

import psutil

from gpucommons.gpu.linux.servers import editor_folders, is_editors_own, is_page_helper

#: Modules that serve a cluster whose workers are a job, beside the kernel that asked for it: nothing of the
#: user's is computed there, and what they do to keep the cluster together is no work of the notebook's.
CLUSTER_HEADS = ("gpucommons.scheduler.adapters.ray.head",)
#: A process, safe against the reuse of its number.
Key = tuple[int, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """One process at one moment."""

    pid: int
    parent: int
    created_s: float
    #: Own time and that of its finished children.
    cpu_s: float
    io_bytes: int
    #: An editor or a language server that serves an open page, if the notebook server started it.
    is_helper: bool = False
    #: An editor's own, with no work of the user's, if an editor started it.
    is_editors: bool = False
    #: A head of a cluster, see :data:`CLUSTER_HEADS`.
    is_head: bool = False

    @property
    def key(self) -> Key:
        """See :data:`Key`."""
        return self.pid, self.created_s


class OwnProcesses:
    """Everything below one process, and what it left behind, told by an inherited variable."""

    def __init__(
        self,
        root: int,
        *,
        marker: tuple[str, str] | None = None,
        beside: Callable[[], Iterable[int]] = tuple,
    ) -> None:
        """``beside``: processes that somebody else started for this one; they count as its children."""
        self._root = root
        self._marker = marker
        self._beside = beside
        #: Whether a process outside the tree is ours: read once, it cannot change.
        self._marked: dict[Key, bool] = {}

    def __call__(self) -> Mapping[int, Process]:
        """Look now."""
        found = {self._root: psutil.Process(self._root)}
        beside = set(self._beside())
        for pid in beside:
            with suppress(psutil.Error):
                found[pid] = psutil.Process(pid)
        for process in tuple(found.values()):
            with suppress(psutil.NoSuchProcess):
                found |= {child.pid: child for child in process.children(recursive=True)}
        if self._marker is not None:
            found |= self._left_behind(found.keys())
        # At each look: an editor may be installed while the server runs.
        editors = editor_folders(os.environ)
        read = {
            pid: one
            for pid, process in found.items()
            if (one := _read(process, editors)) is not None
        }
        return _without_heads(
            {
                pid: replace(one, parent=self._root) if pid in beside else one
                for pid, one in read.items()
            }
        )

    def _left_behind(self, inside: Iterable[int]) -> dict[int, psutil.Process]:
        skip, seen = set(inside), {}
        left: dict[int, psutil.Process] = {}
        for process in psutil.process_iter():
            if process.pid in skip:
                continue
            key = (process.pid, process.create_time())
            seen[key] = self._marked[key] if key in self._marked else self._is_ours(process)
            if seen[key]:
                left[process.pid] = process
        self._marked = seen
        return left

    def _is_ours(self, process: psutil.Process) -> bool:
        assert self._marker is not None  # noqa: S101 - the caller asked
        name, value = self._marker
        # The server itself and whatever started it carry the variable, too, but are not its work.
        if process.pid == os.getpid() or process.pid == os.getppid():
            return False
        try:
            return bool(process.environ().get(name) == value)
        except (psutil.Error, OSError):
            return False


def _without_heads(found: Mapping[int, Process]) -> Mapping[int, Process]:
    """These but for heads of clusters and all that is below one."""
    aside = {pid for pid, one in found.items() if one.is_head}
    below = aside
    while below:
        below = {one.pid for one in found.values() if one.parent in below} - aside
        aside |= below
    return {pid: one for pid, one in found.items() if pid not in aside}


def _is_head(words: Sequence[str]) -> bool:
    return any(one == "-m" and then in CLUSTER_HEADS for one, then in pairwise(words))


def _read(process: psutil.Process, editors: Sequence[str]) -> Process | None:
    try:
        with process.oneshot():
            words = _words(process)
            cpu = process.cpu_times()
            return Process(
                pid=process.pid,
                parent=process.ppid(),
                created_s=process.create_time(),
                cpu_s=cpu.user + cpu.system + cpu.children_user + cpu.children_system,
                io_bytes=_io_bytes(process),
                is_helper=is_page_helper(words, editors),
                is_editors=is_editors_own(words, editors),
                is_head=_is_head(words),
            )
    except (psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied):
        return None


def _words(process: psutil.Process) -> Sequence[str]:
    """Its command line; none where it may not be read: what it computes counts all the same."""
    try:
        return process.cmdline()
    except (psutil.Error, OSError):
        return ()


def _io_bytes(process: psutil.Process) -> int:
    """Read and written, also through the cache and the network; 0 where nobody counts it."""
    try:
        counters = process.io_counters()
    except (AttributeError, psutil.Error, OSError):
        return 0
    # The "chars" counters exist on Linux and include pages from the cache and sockets.
    read = getattr(counters, "read_chars", counters.read_bytes)
    written = getattr(counters, "write_chars", counters.write_bytes)
    return int(read + written)


def input_at_ms(pid: int) -> int | None:
    """When the terminal of a process was last typed into; None where that cannot be told.

    The time of the last *read* of its device, as ``w`` shows it: output does not count.
    """
    device = _terminal(pid)
    return None if device is None else _read_at_ms(device)


def input_of_ms(pids: Iterable[int], *, beside: int) -> int | None:
    """When somebody last typed into a terminal of these, whoever opened it; not into that of ``beside``."""
    devices = {_terminal(pid) for pid in pids} - {_terminal(beside)}
    moments = (_read_at_ms(device) for device in devices if device is not None)
    return max((moment for moment in moments if moment is not None), default=None)


def _terminal(pid: int) -> str | None:
    try:
        # psutil remembers the terminals of its first look for ever, so the link is read here.
        device = os.readlink(f"/proc/{pid}/fd/0")  # noqa: PTH115 - a device, not a file
    except OSError:
        return None
    return device if device.startswith(("/dev/pts/", "/dev/tty")) else None


def _read_at_ms(device: str) -> int | None:
    try:
        return int(os.stat(device).st_atime * 1000)  # noqa: PTH116 - a device, not a file
    except OSError:
        return None
