"""Telling the scheduler that a server is gone, until it has heard.

The process is dead, and nobody waits for this news but the next user of the slice. So it is sent in
the background and repeated: while the hub itself starts, the scheduler cannot even check the
hub's token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from logging import Logger, LoggerAdapter
from typing import Any

from gpucommons.scheduler.client import AsyncSchedulerClient, calls
from gpucommons.scheduler.errors import Conflict, NotFound, SchedulerError
from gpucommons.scheduler.models import EndReport

#: While a hub starts, for about a minute, in short steps: until this is heard the slice is shown as
#: held, and is. About ten minutes in all; by then the scheduler has seen on its own that the process
#: is dead.
RETRY_DELAYS_S = (0.5, 1, 2, *(4 for _ in range(15)), 30, 60, 120, 120, 180)

#: The event loop itself keeps only weak references to tasks.
_running: set[asyncio.Task[None]] = set()


def say_goodbye(
    scheduler: Callable[[], AsyncSchedulerClient],
    lease_id: str,
    *,
    why: str,
    log: Logger | LoggerAdapter[Any],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> asyncio.Task[None]:
    """End a lease in the background; the task is done when the scheduler knows."""
    task = asyncio.ensure_future(_repeat(scheduler, lease_id, why, log, sleep))
    _running.add(task)
    task.add_done_callback(_running.discard)
    return task


async def _repeat(
    scheduler: Callable[[], AsyncSchedulerClient],
    lease_id: str,
    why: str,
    log: Logger | LoggerAdapter[Any],
    sleep: Callable[[float], Awaitable[None]],
) -> None:
    report, say = EndReport.model_validate({"why": why}), log.warning
    for delay_s in (*RETRY_DELAYS_S, None):
        try:
            async with scheduler() as client:
                await client.send(calls.end_lease(lease_id, report))
        except (NotFound, Conflict):
            # It has ended already, for a reason the scheduler knows better.
            return
        except SchedulerError as error:
            if delay_s is None:
                log.error("Lease %s could not be ended: %s", lease_id, error)  # noqa: TRY400 - the sentence says it
                return
            say("Lease %s is not ended yet, trying again: %s", lease_id, error)
            say = log.debug
            await sleep(delay_s)
        else:
            return
