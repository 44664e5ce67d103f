"""Which processes of a notebook server are at work: by CPU time and bytes read or written.

A training run started from a terminal or a kernel keeps no kernel busy and may print nothing for
hours. What it does do is compute, read or write, and that is measured here, over its whole tree.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import psutil

#: Above this share of one core a process tree is at work…
BUSY_CPU_PERCENT = 5.0
#: …or above this rate of reading and writing (a download, loading data, a checkpoint).
BUSY_BYTES_PER_S = 1_000_000
#: A shorter span says nothing: the end of one cell would fill it.
MIN_SPAN_S = 1.0

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

    @property
    def key(self) -> Key:
        """See :data:`Key`."""
        return self.pid, self.created_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What a tree did since the last look."""

    cpu_percent: float
    bytes_per_s: float

    @property
    def busy(self) -> bool:
        """At work, beyond what waiting processes do."""
        return self.cpu_percent > BUSY_CPU_PERCENT or self.bytes_per_s > BUSY_BYTES_PER_S


class Meter:
    """Compares each look with the last one. Not for several threads at a time."""

    def __init__(
        self,
        *,
        look: Callable[[], Mapping[int, Process]],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._monotonic = monotonic
        self._last: dict[Key, Process] = {}
        self._last_at: float | None = None
        self._now: Mapping[int, Process] = {}
        self._span_s = 0.0

    def refresh(self) -> None:
        """Look at all processes once; a look right after the last one changes nothing."""
        moment = self._monotonic()
        if self._last_at is not None and moment - self._last_at < MIN_SPAN_S:
            return
        self._last = {process.key: process for process in self._now.values()}
        self._now = self._look()
        self._span_s = 0.0 if self._last_at is None else moment - self._last_at
        self._last_at = moment

    def tree(self, root: int) -> Load:
        """Load of a process and everything below it."""
        return self._load(self._below({root}))

    def below(self, root: int, *, without: Iterable[int]) -> Load:
        """Load of everything below a process, but for itself and the trees of ``without``."""
        left_out = {process.key for process in self._below(set(without))}
        members = [p for p in self._below({root}) if p.key not in left_out and p.pid != root]
        return self._load(members)

    def outside(self, root: int) -> Load:
        """Load of what was started here and lives on outside the tree (``nohup``, ``setsid``)."""
        inside = {process.key for process in self._below({root})}
        return self._load([p for p in self._now.values() if p.key not in inside])

    def _below(self, roots: set[int]) -> list[Process]:
        children: dict[int, list[int]] = {}
        for process in self._now.values():
            children.setdefault(process.parent, []).append(process.pid)
        members, pending = {}, list(roots)
        while pending:
            pid = pending.pop()
            if pid in self._now and pid not in members:
                members[pid] = self._now[pid]
                pending.extend(children.get(pid, ()))
        return list(members.values())

    def _load(self, members: list[Process]) -> Load:
        if self._span_s <= 0:
            return Load(cpu_percent=0.0, bytes_per_s=0.0)
        cpu_s, io_bytes = 0.0, 0
        for process in members:
            before = self._last.get(process.key)
            # What is new has done all its work since the last look.
            cpu_s += process.cpu_s - (before.cpu_s if before else 0.0)
            io_bytes += process.io_bytes - (before.io_bytes if before else 0)
        return Load(cpu_percent=100 * cpu_s / self._span_s, bytes_per_s=io_bytes / self._span_s)


class OwnProcesses:
    """Everything below one process, and what it left behind, told by an inherited variable."""

    def __init__(self, root: int, *, marker: tuple[str, str] | None = None) -> None:
        self._root = root
        self._marker = marker
        #: Whether a process outside the tree is ours: read once, it cannot change.
        self._marked: dict[Key, bool] = {}

    def __call__(self) -> Mapping[int, Process]:
        """Look now."""
        found = {self._root: psutil.Process(self._root)}
        for child in found[self._root].children(recursive=True):
            found[child.pid] = child
        if self._marker is not None:
            found |= self._left_behind(found.keys())
        return {pid: read for pid, process in found.items() if (read := _read(process)) is not None}

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


def _read(process: psutil.Process) -> Process | None:
    try:
        with process.oneshot():
            cpu = process.cpu_times()
            return Process(
                pid=process.pid,
                parent=process.ppid(),
                created_s=process.create_time(),
                cpu_s=cpu.user + cpu.system + cpu.children_user + cpu.children_system,
                io_bytes=_io_bytes(process),
            )
    except (psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied):
        return None


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
    try:
        # psutil remembers the terminals of its first look for ever, so the link is read here.
        device = os.readlink(f"/proc/{pid}/fd/0")  # noqa: PTH115 - a device, not a file
        if not device.startswith(("/dev/pts/", "/dev/tty")):
            return None
        return int(os.stat(device).st_atime * 1000)  # noqa: PTH116 - a device, not a file
    except OSError:
        return None
