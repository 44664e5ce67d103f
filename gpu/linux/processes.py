"""The node's processes: who exists, who is whose child, what each one used.

Linux answers from ``/proc`` alone, because the agent must stay small; elsewhere psutil does.
Whatever cannot be read (the process ended, another user's) is ``None``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

#: Where a process says which slice it belongs to.
SLICE_VARIABLE = "GPUCOMMONS_SLICE_ID"

_BYTES_PER_MIB = 1 << 20
_READ_BYTES = 4096
#: Files kept open, well below any limit of descriptors.
_MAX_OPEN = 512
#: Environments are searched so far: Linux refuses a single longer string.
_MAX_ENVIRON_BYTES = 1 << 17


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessStat:
    """Identity of a process: a pid alone is reused, pid and start are not."""

    pid: int
    parent: int
    #: In the unit of the system; only ever compared.
    start: int
    #: CPU time of all its threads.
    cpu_ms: int
    #: It computes or stands in line for a core.
    runnable: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessLoad:
    """What a process wanted of the machine, and its own memory."""

    #: CPU time it had plus the time its main thread stood in line for a core.
    demand_ms: int
    #: Memory that it shares with nobody.
    private_mib: int


class Processes(Protocol):
    """Reads the process list of this node."""

    def pids(self) -> Iterable[int]:
        """Every process there is."""
        ...

    def births(self) -> int | None:
        """Changes whenever a process was born; None where that is not known."""
        ...

    def stat(self, pid: int) -> ProcessStat | None:
        """Identity of a live process; None when it is gone or a zombie."""
        ...

    def uid(self, pid: int) -> int | None:
        """Whose process it is."""
        ...

    def slice_id(self, pid: int) -> str | None:
        """The slice that its environment names."""
        ...

    def group(self, pid: int) -> str:
        """Its control group; empty where that cannot be read."""
        ...

    def command(self, pid: int) -> tuple[str, ...]:
        """Its command line; empty when it cannot be read."""
        ...

    def load(self, stat: ProcessStat) -> ProcessLoad | None:
        """What it used so far."""
        ...


class LinuxProcesses:
    """``/proc``."""

    def __init__(self, root: str = "/proc") -> None:
        self._root = root
        self._tick_ms = 1000 // os.sysconf("SC_CLK_TCK")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._loadavg: int | None = None
        with suppress(OSError):
            self._loadavg = os.open(f"{root}/loadavg", os.O_RDONLY | os.O_CLOEXEC)
        #: Open ``stat`` files: what is read every second is not looked up every second.
        self._stats: dict[int, int] = {}
        #: The last line read from each, and what it said.
        self._known: dict[int, tuple[bytes, ProcessStat]] = {}

    def pids(self) -> Iterable[int]:
        """Every process there is."""
        found = self._listed()
        for pid in self._stats.keys() - set(found):
            self._forget(pid)
        return found

    def births(self) -> int | None:
        """The pid that was given out last, in this namespace."""
        if self._loadavg is None:
            return None
        try:
            return int(os.pread(self._loadavg, _READ_BYTES, 0).split()[-1])
        except (OSError, ValueError, IndexError):
            return None

    def _listed(self) -> list[int]:
        return [int(name) for name in os.listdir(self._root) if name.isdigit()]  # noqa: PTH208 - plain names, 5 times cheaper once a second

    def stat(self, pid: int) -> ProcessStat | None:
        """Identity of a live process; None when it is gone or a zombie."""
        content = self._stat_line(pid)
        known = self._known.get(pid)
        if known is not None and known[0] == content:
            return known[1]
        # The name in parentheses may hold spaces and parentheses of its own.
        fields = content[content.rfind(b")") + 2 :].split(None, 20)
        if len(fields) < 20 or _has_ended(fields):  # noqa: PLR2004 - proc(5)
            return None
        found = ProcessStat(
            pid=pid,
            parent=int(fields[1]),
            start=int(fields[19]),
            cpu_ms=(int(fields[11]) + int(fields[12])) * self._tick_ms,
            runnable=fields[0] == b"R",
        )
        if pid in self._stats:
            # Most processes sleep: their line is what it was a second ago.
            self._known[pid] = (content, found)
        return found

    def _stat_line(self, pid: int) -> bytes:
        """One read of an open file; it stays that of its process when the pid is reused."""
        handle = self._stats.get(pid)
        if handle is not None:
            try:
                return os.pread(handle, _READ_BYTES, 0)
            except OSError:
                self._forget(pid)
        try:
            handle = os.open(f"{self._root}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            return os.pread(handle, _READ_BYTES, 0)
        except OSError:
            return b""
        finally:
            if len(self._stats) < _MAX_OPEN:
                self._stats[pid] = handle
            else:
                os.close(handle)

    def _forget(self, pid: int) -> None:
        os.close(self._stats.pop(pid))
        self._known.pop(pid, None)

    def uid(self, pid: int) -> int | None:
        """Whose process it is."""
        try:
            return Path(self._root, str(pid)).stat().st_uid
        except OSError:
            return None

    def slice_id(self, pid: int) -> str | None:
        """The slice that its environment names."""
        prefix = SLICE_VARIABLE.encode() + b"="
        content = self._read(f"{pid}/environ", _MAX_ENVIRON_BYTES)
        if prefix not in content:
            return None
        for entry in content.split(b"\0"):
            if entry.startswith(prefix):
                return entry[len(prefix) :].decode(errors="replace")
        return None

    def group(self, pid: int) -> str:
        """Its control group; empty where that cannot be read."""
        return self._read(f"{pid}/cgroup").decode(errors="replace")

    def command(self, pid: int) -> tuple[str, ...]:
        """Its command line; empty when it cannot be read."""
        content = self._read(f"{pid}/cmdline")
        return tuple(part.decode(errors="replace") for part in content.split(b"\0") if part)

    def load(self, stat: ProcessStat) -> ProcessLoad | None:
        """What it used so far."""
        pages = self._read(f"{stat.pid}/statm").split()
        if len(pages) < 3:  # noqa: PLR2004 - size, resident, shared
            return None
        scheduled = self._read(f"{stat.pid}/schedstat").split()
        waited_ms = int(scheduled[1]) // 1_000_000 if len(scheduled) > 1 else 0
        private_bytes = (int(pages[1]) - int(pages[2])) * self._page_bytes
        return ProcessLoad(
            demand_ms=stat.cpu_ms + waited_ms,
            private_mib=max(0, private_bytes) // _BYTES_PER_MIB,
        )

    def _read(self, name: str, limit: int = _READ_BYTES) -> bytes:
        try:
            handle = os.open(f"{self._root}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            return os.read(handle, limit)
        except OSError:
            return b""
        finally:
            os.close(handle)


def _has_ended(fields: Sequence[bytes]) -> bool:
    """Whether nothing of a process runs any more.

    Its first thread may end alone, at any time: then it reads as a zombie while the others
    compute and hold memory on a card.
    """
    return fields[0] in (b"Z", b"X") and int(fields[17]) <= 1


class PsutilProcesses:
    """Systems without ``/proc``."""

    def __init__(self) -> None:
        import psutil  # noqa: PLC0415 - three MiB that Linux does without

        self._psutil = psutil

    def pids(self) -> Iterable[int]:
        """Every process there is."""
        return self._psutil.pids()

    def births(self) -> int | None:
        """Nothing cheap tells."""
        return None

    def stat(self, pid: int) -> ProcessStat | None:
        """Identity of a live process; None when it is gone or a zombie."""
        try:
            process = self._psutil.Process(pid)
            with process.oneshot():
                if process.status() == self._psutil.STATUS_ZOMBIE:
                    return None
                times = process.cpu_times()
                return ProcessStat(
                    pid=pid,
                    parent=process.ppid(),
                    start=int(process.create_time() * 1000),
                    cpu_ms=int((times.user + times.system) * 1000),
                    runnable=process.status() == self._psutil.STATUS_RUNNING,
                )
        except self._psutil.Error:
            return None

    def uid(self, pid: int) -> int | None:
        """Whose process it is."""
        try:
            return int(self._psutil.Process(pid).uids().real)
        except (self._psutil.Error, AttributeError):
            return None

    def slice_id(self, pid: int) -> str | None:
        """The slice that its environment names."""
        try:
            return self._psutil.Process(pid).environ().get(SLICE_VARIABLE)
        except (self._psutil.Error, OSError):
            return None

    def group(self, pid: int) -> str:
        """There are none."""
        return ""

    def command(self, pid: int) -> tuple[str, ...]:
        """Its command line; empty when it cannot be read."""
        try:
            return tuple(self._psutil.Process(pid).cmdline())
        except (self._psutil.Error, OSError):
            return ()

    def load(self, stat: ProcessStat) -> ProcessLoad | None:
        """What it used so far."""
        try:
            resident = self._psutil.Process(stat.pid).memory_info().rss
        except self._psutil.Error:
            return None
        return ProcessLoad(demand_ms=stat.cpu_ms, private_mib=resident // _BYTES_PER_MIB)


def node_processes() -> Processes:
    """The reader for this system."""
    return LinuxProcesses() if sys.platform == "linux" else PsutilProcesses()
