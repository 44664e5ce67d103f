"""Tells the scheduler what a stopping server keeps, so that the page which starts it again can say it.

The lease that was told is noted: whoever wakes the kernels takes back what was said, for that lease.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from pydantic import BaseModel

from gpucommons.labextension.hibernation.kept_kernels_file import KeptKernel
from gpucommons.labextension.private_files import write_private
from gpucommons.scheduler.client import calls
from gpucommons.scheduler.errors import SchedulerError
from gpucommons.scheduler.models import KeptKernelsReport

R = TypeVar("R", bound=BaseModel)


class SendsCalls(Protocol):
    """A client of the scheduler."""

    async def send(self, call: calls.Call[R]) -> R:
        """Its answer."""
        ...


log = logging.getLogger("gpucommons.labextension")

_FILE = "told-lease"
#: Whoever stops a server does not wait for long; and of the time until it is killed, for its own end.
TELLING_S, _LAST_S = 2.0, 1.0


def kernels_report(kept: Sequence[KeptKernel]) -> KeptKernelsReport:
    """All kept kernels as numbers; the date is that of the first to go."""
    return KeptKernelsReport(
        kernels=len(kept),
        kernel_bytes=sum(each.bytes for each in kept),
        until_ms=min((each.kept_until_ms for each in kept), default=None),
    )


def telling_seconds(until_killed: int | None, since_stop_s: float | None) -> float:
    """How long a busy scheduler may take to hear what is kept, as the page that starts it again says nothing
    of it else; ``since_stop_s`` is None where more is to be done then.
    """
    if since_stop_s is None or until_killed is None:
        return TELLING_S
    return max(TELLING_S, until_killed - since_stop_s - _LAST_S)


async def tell_kept(
    scheduler: SendsCalls,
    lease_id: str,
    kept: Sequence[KeptKernel],
    folder: Path,
    within_s: float,
) -> None:
    """At the server's stop. Who kept nothing, and said nothing before, says nothing."""
    if kept:
        write_private(folder / _FILE, lease_id)
        await _send(scheduler, lease_id, kernels_report(kept), within_s)


async def take_back(scheduler: SendsCalls, kept: Sequence[KeptKernel], folder: Path) -> None:
    """At the next start, for the lease that was told: what was kept is awake, or gone."""
    try:
        lease_id = (folder / _FILE).read_text()
    except OSError:
        return
    if await _send(scheduler, lease_id, kernels_report(kept), TELLING_S) and not kept:
        (folder / _FILE).unlink(missing_ok=True)


async def _send(
    scheduler: SendsCalls, lease_id: str, report: KeptKernelsReport, within_s: float
) -> bool:
    try:
        async with asyncio.timeout(within_s):
            await scheduler.send(calls.report_kept_kernels(lease_id, report))
    except (SchedulerError, TimeoutError) as error:
        log.warning("the scheduler is not told what is kept of the kernels: %s", error)
        return False
    return True
