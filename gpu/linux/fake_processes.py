"""A process list that a test writes: births, deaths, reused pids and work in no time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpucommons.gpu.linux.processes import ProcessLoad, ProcessStat


@dataclass(frozen=True, kw_only=True, slots=True)
class FakeProcess:
    """One process of the list."""

    pid: int
    parent: int = 1
    start: int = 0
    uid: int = 1000
    #: What its environment says.
    claim: str | None = None
    #: Control group.
    group: str = ""
    command: tuple[str, ...] = ("python",)
    demand_ms: int = 0
    private_mib: int = 0
    zombie: bool = False


class FakeProcesses:
    """Implements ``Processes`` over a dict."""

    def __init__(self) -> None:
        self._all: dict[int, FakeProcess] = {}
        self._births = 0

    def start(self, process: FakeProcess) -> None:
        """Add a process; it is younger than all before it, unless it says when it started."""
        self._births += 1
        self._all[process.pid] = replace(process, start=process.start or self._births)

    def end(self, pid: int) -> None:
        """Remove a process; its children go to pid 1."""
        del self._all[pid]
        for process in list(self._all.values()):
            if process.parent == pid:
                self._all[process.pid] = replace(process, parent=1)

    def die(self, pid: int) -> None:
        """Leave a zombie that its parent has not collected."""
        self._all[pid] = replace(self._all[pid], zombie=True)

    def work(self, pid: int, *, demand_ms: int = 0, private_mib: int | None = None) -> None:
        """Let a process compute, and hold so much memory from now on."""
        process = self._all[pid]
        self._all[pid] = replace(
            process,
            demand_ms=process.demand_ms + demand_ms,
            private_mib=process.private_mib if private_mib is None else private_mib,
        )

    def pids(self) -> Iterable[int]:
        """Every process there is."""
        return tuple(self._all)

    def births(self) -> int | None:
        """How many there were."""
        return self._births

    def stat(self, pid: int) -> ProcessStat | None:
        """Identity of a live process."""
        process = self._all.get(pid)
        if process is None or process.zombie:
            return None
        return ProcessStat(
            pid=pid, parent=process.parent, start=process.start, cpu_ms=process.demand_ms
        )

    def uid(self, pid: int) -> int | None:
        """Whose process it is."""
        process = self._all.get(pid)
        return None if process is None else process.uid

    def slice_id(self, pid: int) -> str | None:
        """The slice that its environment names."""
        process = self._all.get(pid)
        return None if process is None else process.claim

    def group(self, pid: int) -> str:
        """Its control group."""
        process = self._all.get(pid)
        return "" if process is None else process.group

    def command(self, pid: int) -> tuple[str, ...]:
        """Its command line."""
        process = self._all.get(pid)
        return () if process is None else process.command

    def load(self, stat: ProcessStat) -> ProcessLoad | None:
        """What it used so far."""
        process = self._all.get(stat.pid)
        if process is None:
            return None
        return ProcessLoad(demand_ms=process.demand_ms, private_mib=process.private_mib)
