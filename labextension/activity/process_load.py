"""How much the processes of a notebook server compute, read and write, and above what they count as busy.

A training run started from a terminal or a kernel keeps no kernel busy and may print nothing for
hours. What it does do is compute, read or write, and that is measured here, over its whole tree.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gpucommons.labextension.activity.processes import Key, Process

#: Above this share of one core a process tree is at work…
BUSY_CPU_PERCENT = 5.0
#: …or above this rate of reading and writing (a download, loading data, a checkpoint).
BUSY_BYTES_PER_S = 1_000_000
#: A shorter span says nothing: the end of one cell would fill it.
MIN_SPAN_S = 1.0


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
        """Load of everything below a process, but for itself, the trees of ``without`` and editors.

        An open VS Code watches files and looks for languages for ever; what somebody runs in its terminals and
        kernels counts.
        """
        helpers = self._helpers(root)
        return self._load([p for p in self.members(root, without=without) if p.pid not in helpers])

    def members(self, root: int, *, without: Iterable[int]) -> list[Process]:
        """All of these."""
        left_out = {process.key for process in self._below(set(without))}
        return [p for p in self._below({root}) if p.key not in left_out and p.pid != root]

    def outside(self, root: int) -> Load:
        """Load of what was started here and lives on outside the tree (``nohup``, ``setsid``)."""
        inside = {process.key for process in self._below({root})}
        return self._load([p for p in self._now.values() if p.key not in inside])

    def _helpers(self, root: int) -> set[int]:
        """Editors' own processes: those that the server started, or that one of them did."""
        found: set[int] = set()
        parents = {one.pid for one in self._now.values() if one.is_helper and one.parent == root}
        while parents:
            found |= parents
            parents = {
                one.pid for one in self._now.values() if one.is_editors and one.parent in parents
            } - found
        return found

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
