"""Ends leases whose server is gone without a word, or never came: a hub that was killed tells nobody.

Two witnesses are needed, and time: the agent sees no process in the slice for a minute, and the hub
knows no such server. One of them alone may be wrong (an agent that has just started, a hub that lost
its database), and a notebook inside its quota must not lose its slice to an error.

Where a slice was given to a server that never said that it runs, the hub may well know one of that
name: another one, without a GPU. There it is enough that the hub answers, for then it has also looked
after its servers, and one of this lease would have reported itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from gpucommons.scheduler.core.events.leases import never_ran
from gpucommons.scheduler.core.model.intents import Cancel
from gpucommons.scheduler.core.model.types import State, Workload, WorkloadId
from gpucommons.scheduler.errors import Unavailable

log = logging.getLogger("gpucommons.scheduler.hub.missing_servers")

#: A slice must be seen empty for so long; a server that is starting has its grant, not a lease.
EMPTY_FOR_MS = 60_000
#: States of a lease that has a server.
_RUN = frozenset({State.ACTIVE, State.WARNED, State.PARKING, State.PARKED, State.HIBERNATING})


class KnowsServers(Protocol):
    """The one call of :class:`gpucommons.scheduler.hub.hub.Hub` that is needed here."""

    async def has_server(self, user: str, server_name: str) -> bool:
        """Whether the hub has such a server, in any state."""
        ...


class MissingServers:
    """One pass after the other."""

    def __init__(
        self,
        hub: KnowsServers,
        *,
        workloads: Callable[[], tuple[Workload, ...]],
        is_empty: Callable[[Workload], bool],
        end: Callable[[Cancel], object],
        now_ms: Callable[[], int],
    ) -> None:
        self._hub = hub
        self._workloads = workloads
        self._is_empty = is_empty
        self._end = end
        self._now_ms = now_ms
        self._empty_since: dict[WorkloadId, int] = {}

    async def step(self) -> None:
        """Look at every running notebook once, and at each that should have run by now."""
        held = [w for w in self._workloads() if w.state in _RUN or never_ran(w)]
        empty = await asyncio.to_thread(lambda: [w for w in held if self._is_empty(w)])
        now = self._now_ms()
        self._empty_since = {
            w.workload_id: self._empty_since.get(w.workload_id, now) for w in empty
        }
        for lease in empty:
            if now - self._empty_since[lease.workload_id] >= EMPTY_FOR_MS:
                await self._end_if_missing(lease)

    async def _end_if_missing(self, lease: Workload) -> None:
        spec = lease.spec
        try:
            known = await self._hub.has_server(spec.owner, spec.server_name)
            if known and not never_ran(lease):
                return
            log.warning("the server %s/%s is gone: ending its lease", spec.owner, spec.server_name)
            cancel = Cancel(workload_id=lease.workload_id, why="stopped", text="")
            # It waits for the store.
            await asyncio.to_thread(self._end, cancel)
        except Unavailable:
            return  # no witness, or no store: the next pass asks again
