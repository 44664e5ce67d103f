"""Servers without a lease: a second source of candidates, by the hub's own ``last_activity``.

That number counts an open tab's traffic and misses a silent cell, so it never decides about a
server that holds a GPU. For a CPU notebook it is what every hub has. :func:`cull_idle` offers the
same as a function, with the call of jupyterhub-idle-culler.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from gpucommons.idle_culler.hub import PAGE_SIZE, Hub, HubServer
from gpucommons.idle_culler.idle_limits import duration
from gpucommons.idle_culler.loop import Act, run_bounded

log = logging.getLogger("gpucommons.culler")

#: Asked instead of the limit: ``arbiter(inactive=…, inactive_limit=…, server=…)``.
Arbiter = Callable[..., bool | Awaitable[bool]]


@dataclass(frozen=True, kw_only=True, slots=True)
class PlainRules:
    """Which servers without a lease are stopped."""

    #: None = however inactive.
    inactive_after_ms: int | None
    #: However active; 0 = no limit.
    max_age_ms: int = 0
    default_servers: bool = True
    named_servers: bool = True
    #: Delete named servers, instead of only stopping them.
    remove_named: bool = False
    arbiter: Arbiter | None = None


def wall_clock_ms() -> int:
    """UTC."""
    return time.time_ns() // 1_000_000


@dataclass(kw_only=True)
class HubList:
    """A source of the loop: streams the hub's list, never holding more than a page of it."""

    hub: Hub
    rules: PlainRules
    #: Servers that are none of ours; None = not known right now, so nothing is touched.
    held: Callable[[], frozenset[tuple[str, str]] | None] = frozenset
    now_ms: Callable[[], int] = wall_clock_ms
    page_size: int = PAGE_SIZE
    dry_run: bool = False
    logger: logging.Logger = log

    @property
    def due_in_s(self) -> float | None:
        """See :class:`Source`: the hub pushes nothing, so only regular cycles find anything."""
        return None

    async def acts(self) -> AsyncGenerator[Act]:
        """Everything that is over its limit in the list."""
        held = self.held()
        if held is None:
            return
        async for server in self.hub.ready_servers(self.page_size):
            if (server.user, server.server_name) in held:
                continue
            why = await self._why(server)
            if why is not None and self.dry_run:
                self.logger.info("dry run, not to cull %s: %s", server.label, why)
            elif why is not None:
                yield partial(self._cull, server)

    async def _cull(self, listed: HubServer) -> None:
        """Look again, then stop."""
        server = await self.hub.server(listed.user, listed.server_name)
        why = await self._why(server) if server is not None else None
        if server is None or why is None:
            self.logger.info("%s spared: it became active or stopped", listed.label)
            return
        down = await self.hub.stop(server.user, server.server_name, remove=self.rules.remove_named)
        self.logger.info("%s %s: %s", server.label, "culled" if down else "is being stopped", why)

    async def _why(self, server: HubServer) -> str | None:
        """Why the server is to stop; None = it is not."""
        wanted = self.rules.named_servers if server.server_name else self.rules.default_servers
        if server.pending or not server.ready or not wanted:
            return None
        now_ms = self.now_ms()
        last_ms = server.last_activity_ms or server.started_ms
        if last_ms is not None and await self._inactive(server, now_ms - last_ms):
            return f"inactive for {duration(now_ms - last_ms)}"
        age_ms = now_ms - server.started_ms if server.started_ms is not None else 0
        if self.rules.max_age_ms and age_ms >= self.rules.max_age_ms:
            return f"running for {duration(age_ms)}"
        return None

    async def _inactive(self, server: HubServer, inactive_ms: int) -> bool:
        limit_ms = self.rules.inactive_after_ms
        if limit_ms is None:
            return False
        if self.rules.arbiter is None:
            return inactive_ms >= limit_ms
        verdict = self.rules.arbiter(
            inactive=timedelta(milliseconds=inactive_ms),
            inactive_limit=limit_ms / 1000,
            server=server.model,
        )
        return bool(await verdict if inspect.isawaitable(verdict) else verdict)


async def cull_idle(  # noqa: PLR0913 - the public call of jupyterhub-idle-culler
    url: str,
    api_token: str,
    inactive_limit: float,
    logger: logging.Logger,
    *,
    remove_named_servers: bool = False,
    max_age: float = 0,
    concurrency: int = 10,
    api_page_size: int = 0,
    cull_default_servers: bool = True,
    cull_named_servers: bool = True,
    cull_arbiter: Arbiter | None = None,
    now_ms: Callable[[], int] = wall_clock_ms,
) -> None:
    """Stop every server that was inactive for ``inactive_limit`` seconds, by the hub's own list.

    Parameters are those of jupyterhub-idle-culler's function of that name; users are never
    deleted here.
    """
    rules = PlainRules(
        inactive_after_ms=int(inactive_limit * 1000),
        max_age_ms=int(max_age * 1000),
        default_servers=cull_default_servers,
        named_servers=cull_named_servers,
        remove_named=remove_named_servers,
        arbiter=cull_arbiter,
    )
    async with Hub(url, token=api_token) as hub:
        source = HubList(
            hub=hub, rules=rules, now_ms=now_ms, page_size=api_page_size or PAGE_SIZE, logger=logger
        )
        await run_bounded(
            source.acts(), concurrency, lambda error: logger.error("not culled: %s", error)
        )
