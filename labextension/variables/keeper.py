"""While the server stops: each idle Python kernel stores its variables, in bounded time and room."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gpucommons.labextension.clock import wall_clock_ms
from gpucommons.labextension.variables import asking
from gpucommons.labextension.variables.folders import (
    Folders,
    Lost,
    StoredVariables,
    read_index,
)
from gpucommons.labextension.variables.inside import NotKept
from gpucommons.scheduler.models import KeptKernelsReport

log = logging.getLogger("gpucommons.labextension")

DAY_MS = 24 * 3600 * 1000
#: For the kernel's answer, after its own time is over.
_ANSWER_S = 0.5
#: Of the time until the server is killed, for all that is not storing: the report, kernels' ends.
REST_S = 3.0
#: In less nothing worth a word is stored.
_LEAST_S = 2.0
#: What is said of a variable whose turn did not come.
NO_TIME = "there was no time left"


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """How much is stored, how long it may take and how long it is kept."""

    most_bytes: int = 1 << 30
    #: Of all that is stored for one user.
    most_bytes_in_all: int = 4 << 30
    seconds: float = 5.0
    days: int = 9


class Kernels(Protocol):
    """The part of the server's kernel manager that is needed."""

    def list_kernel_ids(self) -> list[str]:
        """Running kernels."""
        ...

    def get_kernel(self, kernel_id: str) -> Any:
        """One kernel's manager."""
        ...


@dataclass(kw_only=True)
class VariableKeeper:
    """Asks the kernels of one server."""

    kernels: Kernels
    #: The path of the notebook that each kernel belongs to.
    notebooks: Callable[[], Awaitable[dict[str, str]]]
    folders: Folders
    bounds: Bounds
    owner: str
    server_name: str
    now_ms: Callable[[], int] = wall_clock_ms

    async def keep(self) -> list[StoredVariables]:
        """Store what can be of all kernels that are there now; those saved whole are gone by then."""
        python = [one for one in self.kernels.list_kernel_ids() if self._is_python(one)]
        if not python or self.bounds.seconds <= 0:
            return []
        room = self.bounds.most_bytes_in_all - self.folders.size_bytes()
        each = max(0, min(self.bounds.most_bytes, room)) // len(python)
        deadline_s = time.monotonic() + self.bounds.seconds
        paths = await self.notebooks()
        made = await asyncio.gather(
            *(self._keep(one, paths.get(one, ""), each, deadline_s) for one in python),
            return_exceptions=True,
        )
        for one in made:
            if isinstance(one, Exception):
                log.warning("variables of a kernel are not kept: %s", one)
        return [one for one in made if isinstance(one, StoredVariables)]

    def _is_python(self, kernel_id: str) -> bool:
        spec = getattr(self.kernels.get_kernel(kernel_id), "kernel_spec", None)
        return str(getattr(spec, "language", "")).lower() == "python"

    async def _keep(
        self, kernel_id: str, path: str, most_bytes: int, deadline_s: float
    ) -> StoredVariables | None:
        kernel = self.kernels.get_kernel(kernel_id)
        if not await asking.is_idle(kernel, deadline_s):
            message = f"{path or 'a kernel without a notebook'} was still running a cell"
            raise NotKept(message)
        folder = await asyncio.to_thread(self.folders.make, kernel_id)
        # Half of the time that is left over would be the kernel's answer, and the record of it.
        seconds = max(0.1, deadline_s - time.monotonic() - 2 * _ANSWER_S)
        text = asking.code(
            "keep",
            str(folder),
            dill_at=asking.dill_at(),
            most_bytes=most_bytes,
            seconds=seconds,
        )
        await asking.run(kernel, text, seconds=seconds + _ANSWER_S)
        about = await asyncio.to_thread(self._read, kernel_id, path, folder)
        if about is None:
            await asyncio.to_thread(self.folders.remove, kernel_id)
            return None
        await asyncio.to_thread(self.folders.finish, about)
        return about

    def _read(self, kernel_id: str, path: str, folder: Path) -> StoredVariables | None:
        """What the kernel has written down, also where it never came to its end."""
        first, *lines = read_index(folder)
        now_ms = self.now_ms()
        done = {name for line in lines for name in line["names"]}
        counted = [name for kind, names in first["found"] if kind != "import" for name in names]
        whole = [line for line in lines if "file" in line]
        kept = [n for line in whole if line["kind"] != "import" for n in line["names"]]
        refused = (line for line in lines if "because" in line and line["kind"] != "import")
        lost = [Lost(name=n, because=one["because"]) for one in refused for n in one["names"]]
        lost += [Lost(name=name, because=NO_TIME) for name in counted if name not in done]
        if not kept and not lost:
            return None
        return StoredVariables(
            kernel_id=kernel_id,
            owner=self.owner,
            server_name=self.server_name,
            path=path,
            kept=tuple(kept),
            lost=tuple(lost),
            size_bytes=sum(line["bytes"] for line in whole),
            made_ms=now_ms,
            until_ms=now_ms + self.bounds.days * DAY_MS,
        )


def seconds_left(wanted: float, until_killed: int | None) -> float:
    """How long storing may take; 0 where the server is killed before anything is stored."""
    if until_killed is None:
        return wanted
    left = until_killed - REST_S
    return min(wanted, left) if left >= _LEAST_S else 0.0


async def notebooks_of(sessions: Any) -> dict[str, str]:
    """Which notebook each kernel belongs to; empty where Jupyter cannot say."""
    try:
        listed = await sessions.list_sessions()
    except Exception:  # noqa: BLE001 - another session manager may do otherwise
        return {}
    return {
        one["kernel"]["id"]: str(one.get("path", ""))
        for one in listed
        if one.get("type") == "notebook" and one.get("kernel")
    }


def variables_report(stored: Sequence[StoredVariables]) -> KeptKernelsReport | None:
    """For the scheduler, in numbers; None where nothing is kept."""
    kept = sum(len(one.kept) for one in stored)
    if not kept:
        return None
    return KeptKernelsReport(
        variables=kept,
        variable_bytes=sum(one.size_bytes for one in stored),
        variables_lost=sum(len(one.lost) for one in stored),
        until_ms=min(one.until_ms for one in stored if one.kept),
    )
