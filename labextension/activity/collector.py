"""What this notebook server does right now, as the culler wants to know it.

Kernels and terminals are asked for their state, everything below them is measured. An open browser
tab appears nowhere. What was once active and has gone leaves the time of its last activity behind.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from gpucommons.labextension.activity.process_load import Meter
from gpucommons.labextension.activity.processes import OwnProcesses, input_at_ms, input_of_ms
from gpucommons.labextension.clock import wall_clock_ms
from gpucommons.scheduler.models import ActivityReport, KernelActivity

#: As many as a report may hold; busy ones come first.
MAX_ENTRIES = 512


@dataclass(frozen=True, kw_only=True, slots=True)
class Occupant:
    """A kernel or terminal as the server knows it; what is done in editors beside."""

    kind: Literal["kernel", "terminal", "process"]
    key: str
    name: str
    #: It says itself that it is busy (kernels do, terminals cannot).
    busy: bool
    last_active_ms: int | None
    pid: int | None


class Kernels(Protocol):
    """The part of the server's kernel manager that is needed."""

    def list_kernel_ids(self) -> list[str]:
        """Running kernels."""
        ...

    def get_kernel(self, kernel_id: str) -> Any:
        """One kernel's manager."""
        ...


@dataclass(kw_only=True)
class Collector:
    """Collects one report; keeps what it must remember between reports."""

    kernels: Kernels
    #: By name; None where the server has no terminals.
    terminals: Callable[[], Mapping[str, Any]]
    meter: Meter
    #: When a client of an editor last sent what somebody did; 0 = never.
    sent_ms: Callable[[], int] = lambda: 0
    now_ms: Callable[[], int] = wall_clock_ms
    #: When the last of what has gone was active; at first when the server began, which somebody
    #: waits for: a slice that is held since before it is not idle that long.
    gone_ms: int = 0
    _last_ms: dict[str, int] = field(default_factory=dict)

    async def collect(self) -> ActivityReport:
        """Ask kernels and terminals here, measure processes in a worker thread."""
        occupants = [*self._kernels(), *self._terminals()]
        return await asyncio.to_thread(self._measure, occupants)

    def busy_ms(self) -> int | None:
        """The time, where a kernel says that it is busy now: nothing is measured for that."""
        return self.now_ms() if any(one.busy for one in self._kernels()) else None

    def _kernels(self) -> list[Occupant]:
        found = []
        for kernel_id in self.kernels.list_kernel_ids():
            kernel = self.kernels.get_kernel(kernel_id)
            last = getattr(kernel, "last_activity", None)
            found.append(
                Occupant(
                    kind="kernel",
                    key=f"kernel {kernel_id}",
                    name=_printable(kernel.kernel_name),
                    busy=getattr(kernel, "execution_state", None) == "busy",
                    last_active_ms=_millis(last),
                    pid=getattr(getattr(kernel, "provisioner", None), "pid", None),
                )
            )
        return found

    def _terminals(self) -> list[Occupant]:
        found = []
        for name, terminal in self.terminals().items():
            pid = terminal.ptyproc.pid
            typed_ms = input_at_ms(pid)
            if typed_ms is None:
                # Output counts as well then, but better that than a user at work unseen.
                typed_ms = _millis(getattr(terminal, "last_activity", None))
            found.append(
                Occupant(
                    kind="terminal",
                    key=f"terminal {name}",
                    name=_printable(name),
                    busy=False,
                    last_active_ms=typed_ms,
                    pid=pid,
                )
            )
        return found

    def _measure(self, occupants: list[Occupant]) -> ActivityReport:
        self.meter.refresh()
        server, now_ms = os.getpid(), self.now_ms()
        busy: dict[str, str] = {}
        for occupant in occupants:
            at_work = occupant.pid is not None and self.meter.tree(occupant.pid).busy
            if occupant.busy or (at_work and occupant.kind == "terminal"):
                busy[occupant.key] = occupant.name
            elif at_work:
                # A thread or child process that outlives its cell.
                busy[f"process below {occupant.key}"] = occupant.name
        roots = [occupant.pid for occupant in occupants if occupant.pid is not None]
        occupants += self._editors(server, roots)
        if self.meter.below(server, without=roots).busy:
            busy["process of the server"] = "started by the server"
        if self.meter.outside(server).busy:
            busy["process left behind"] = "background process"
        self._remember(occupants, busy, now_ms)
        return ActivityReport(kernels=self._entries(occupants, busy))

    def _editors(self, server: int, roots: list[int]) -> list[Occupant]:
        """What comes from their pages, and is typed into terminals that they or ssh opened."""
        pids = [process.pid for process in self.meter.members(server, without=roots)]
        last_ms = max(self.sent_ms(), input_of_ms(pids, beside=server) or 0)
        if not last_ms:
            return []
        made = Occupant(
            kind="process",
            key="editors",
            name="editor",
            busy=False,
            last_active_ms=last_ms,
            pid=None,
        )
        return [made]

    def _remember(self, occupants: list[Occupant], busy: dict[str, str], now_ms: int) -> None:
        """Keep the time of the last activity of everything, also of what has gone."""
        here = {occupant.key: occupant.last_active_ms or 0 for occupant in occupants}
        here |= dict.fromkeys(busy, now_ms)
        for key, last_ms in list(self._last_ms.items()):
            if key in here:
                here[key] = max(here[key], last_ms)
            else:
                self.gone_ms = max(self.gone_ms, last_ms)
        self._last_ms = here

    def _entries(self, occupants: list[Occupant], busy: dict[str, str]) -> list[KernelActivity]:
        entries = [
            KernelActivity(
                kind=occupant.kind,
                name=occupant.name,
                busy=occupant.key in busy,
                last_active_ms=self._last_ms[occupant.key] or None,
            )
            for occupant in occupants
        ]
        known = {occupant.key for occupant in occupants}
        entries += [
            KernelActivity(kind="process", name=name, busy=True, last_active_ms=self._last_ms[key])
            for key, name in busy.items()
            if key not in known
        ]
        if self.gone_ms:
            entries.append(
                KernelActivity(
                    kind="process", name="ended", busy=False, last_active_ms=self.gone_ms
                )
            )
        return sorted(entries, key=lambda entry: not entry.busy)[:MAX_ENTRIES]


def collector_for(server: Any, environ: Mapping[str, str], sent_ms: Callable[[], int]) -> Collector:
    """The collector of a running Jupyter Server."""
    lease_id = environ.get("GPUCOMMONS_LEASE_ID")
    marker = ("GPUCOMMONS_LEASE_ID", lease_id) if lease_id else None

    def terminals() -> Mapping[str, Any]:
        manager = server.web_app.settings.get("terminal_manager")
        return dict(manager.terminals) if manager is not None else {}

    def beside() -> list[int]:
        """Kernels that root's program started for this server."""
        found = []
        for kernel_id in server.kernel_manager.list_kernel_ids():
            # It may end while it is looked for.
            with suppress(KeyError):
                made = getattr(server.kernel_manager.get_kernel(kernel_id), "provisioner", None)
                if made is not None and getattr(made, "is_beside", False) and made.pid is not None:
                    found.append(made.pid)
        return found

    return Collector(
        kernels=server.kernel_manager,
        terminals=terminals,
        meter=Meter(look=OwnProcesses(os.getpid(), marker=marker, beside=beside)),
        sent_ms=sent_ms,
        gone_ms=wall_clock_ms(),
    )


def _millis(moment: datetime | None) -> int | None:
    if moment is None:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def _printable(name: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in name)[:100]
