"""GPU admin: what the cluster does now, quotas, who waits, who idles, receipts, the report.

Everybody may open it; the API decides what each of them sees. Controls are shown to admins only,
and writes need either subdomains or the admin's explicit word (see ``PagesSettings``).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import Any

from gpucommons.scheduler import models
from gpucommons.scheduler.client import calls, plan_calls, report_calls
from gpucommons.scheduler.errors import Forbidden, NotFound, SchedulerError
from gpucommons.scheduler.languages.texts import gettext, gettext_noop
from gpucommons.scheduler.pages.base import PageHandler
from gpucommons.scheduler.pages.present import (
    capacity,
    evictions,
    fragmentation,
    idle,
    waiting,
)
from gpucommons.scheduler.pages.present.quotas import table
from gpucommons.scheduler.pages.reports import monthly, utilisation
from gpucommons.scheduler.pages.settings import WRITES_OFF

_HOUR_MS = 3_600_000
_REPORT_AGE_MS = 60_000
#: A restore is said beside the map for so long, and for ever in the list of changes.
_NEWS_MS = 24 * _HOUR_MS
_RECEIPTS = 100
_CHANGES = 20
_OUTCOMES = 30
#: Tabs of admins and leads, with what others are told.
_WATCHED = {
    "idle": gettext_noop("Only admins and leads of teams see what others' notebooks do."),
    "utilisation": gettext_noop("Only admins and leads of teams see how GPUs were used over time."),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Tab:
    """One tab of the page."""

    key: str
    label: str
    count: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Shared:
    """What every tab needs: the map for labels and age, and the counts beside the tabs."""

    nodes: models.NodeList
    pools: list[models.PoolView]
    waiting: tuple[waiting.WaitingRow, ...]
    idle: tuple[idle.IdleRow, ...]


class LastHour:
    """The report of the last hour, asked for at most once a minute per user.

    It sums the ledger, which has a row per minute: asking at every refresh would tell nothing new.
    """

    def __init__(self) -> None:
        self._reports: dict[str, tuple[int, models.Report | None]] = {}

    async def get(self, page: PageHandler, me: models.WhoAmI) -> models.Report | None:
        """The report, None where it cannot be had."""
        now_ms = page.site.now_ms()
        known = self._reports.get(me.name)
        if known is not None and now_ms - known[0] < _REPORT_AGE_MS:
            return known[1]
        try:
            fresh = await page.ask(report_calls.report(from_ms=now_ms - _HOUR_MS, to_ms=now_ms))
        except SchedulerError as error:
            if error.status == HTTPStatus.SERVICE_UNAVAILABLE:
                raise
            fresh = None
        self._reports = {
            name: kept for name, kept in self._reports.items() if now_ms - kept[0] < _REPORT_AGE_MS
        } | {me.name: (now_ms, fresh)}
        return fresh


class Admin(PageHandler):
    """The page, one address per tab."""

    async def get(self, tab: str | None = None) -> None:
        """Show a tab."""
        me = await self.whoami()
        key = tab or "now"
        if key in _WATCHED and not _watches(me):
            raise Forbidden(gettext(_WATCHED[key]))
        shared = await self._shared(me)
        allowed = self.site.settings.admin_writes
        self.show(
            "admin.html",
            active="admin",
            tab=key,
            tabs=_tabs(me, shared),
            writes=me.admin and allowed,
            reclaims=_watches(me) and allowed,
            whose=_whose(me),
            writes_off=gettext(WRITES_OFF) if _watches(me) and not allowed else "",
            simulated=capacity.simulated(shared.nodes),
            data_ms=shared.nodes.now_ms,
            waiting=shared.waiting,
            idle=shared.idle,
            **await self._of_tab(key, me, shared),
        )

    async def _shared(self, me: models.WhoAmI) -> Shared:
        nodes, pools, jobs, leases = await asyncio.gather(
            self.ask(calls.nodes()), self.ask(calls.pools()), self._jobs(), self.leases("waiting")
        )
        activities = await self.ask(calls.activities()) if _watches(me) else None
        idle_ms = fragmentation.idle_spans_ms(activities)
        return Shared(
            nodes=nodes,
            pools=pools.pools,
            waiting=waiting.with_pieces(
                waiting.waiting_rows(jobs, leases, nodes.now_ms),
                # Most wait in the same pools.
                cache(lambda of: fragmentation.pieces(nodes, idle_ms, of)),
            ),
            idle=idle.idle_rows(activities) if activities else (),
        )

    async def _of_tab(self, key: str, me: models.WhoAmI, shared: Shared) -> dict[str, Any]:
        if key == "now":
            return await self._now(me, shared)
        if key == "teams":
            return {
                "tables": await self._tables(me, shared),
                "changes": await self._changes(me),
                "budgets": (await self.ask(plan_calls.budgets())).budgets,
            }
        if key == "evictions":
            asked = calls.events(kinds=list(evictions.BY_AGENTS), newest=_RECEIPTS)
            by_agents = evictions.agent_rows((await self.ask(asked)).events)
            return {"receipts": await self._receipts(), "by_agents": by_agents}
        if key == "report":
            return await monthly.shown(self, me, shared.pools, now_ms=shared.nodes.now_ms)
        if key == "utilisation":
            return await utilisation.shown(self)
        return {}

    async def _now(self, me: models.WhoAmI, shared: Shared) -> dict[str, Any]:
        last_hour = await self.settings["last_hour"].get(self, me)
        return {
            "restored": await self._restored(me, shared.nodes.now_ms),
            "not_configured": await self._not_configured(me),
            "figures": capacity.figures(shared.nodes, shared.waiting, last_hour, whose=_whose(me)),
            "growth": (await self.ask(calls.growth())).pools if me.admin else [],
            "fields": capacity.capacity_map(shared.nodes, shared.pools),
            "legend": capacity.LEGEND,
            "tables": await self._tables(me, shared),
        }

    async def _restored(self, me: models.WhoAmI, now_ms: int) -> models.EventView | None:
        """What the first start after a restore found, for admins and while it is news."""
        if not me.admin:
            return None
        found = (await self.ask(calls.events(kinds=[models.RECONCILED], newest=1))).events
        return found[0] if found and now_ms - found[0].at_ms < _NEWS_MS else None

    async def _not_configured(self, me: models.WhoAmI) -> models.EventView | None:
        """Why the first configuration is not in force, for admins; None where it is."""
        if not me.admin:
            return None
        kinds = [models.CONFIGURATION_WAITS, models.CONFIGURATION_IN_FORCE]
        found = (await self.ask(calls.events(kinds=kinds, newest=1))).events
        return found[0] if found and found[0].kind == models.CONFIGURATION_WAITS else None

    async def _tables(self, me: models.WhoAmI, shared: Shared) -> tuple[table.QuotaTable, ...]:
        teams = (await self.ask(calls.teams())).teams
        seen = [team for team in teams if me.admin or team.mine or team.name in me.leads]
        return table.quota_tables(seen, shared.pools)

    async def _changes(self, me: models.WhoAmI) -> tuple[table.ChangeRow, ...] | None:
        """Audit rows: all for admins, a lead's own teams; the API sees to that. None for others."""
        if not _watches(me):
            return None
        asked = calls.events(kinds=models.CHANGE_KINDS, newest=_CHANGES)
        return table.change_rows((await self.ask(asked)).events)

    async def _receipts(self) -> tuple[evictions.EvictionRow, ...]:
        kinds = ([evictions.EVICTED], list(evictions.OTHERS))
        asked = (self.ask(calls.events(kinds=some, newest=_RECEIPTS)) for some in kinds)
        events = {one.number: one for page in await asyncio.gather(*asked) for one in page.events}
        ids = evictions.beneficiaries(tuple(events.values()))[:_OUTCOMES]
        found = await asyncio.gather(*(self._workload(workload_id) for workload_id in ids))
        outcomes = {i: workload for i, workload in zip(ids, found, strict=True) if workload}
        return evictions.eviction_rows(tuple(events.values()), outcomes)

    async def _workload(self, workload_id: str) -> models.JobView | models.LeaseView | None:
        try:
            return await self.ask(calls.job(workload_id))
        except NotFound:
            pass
        try:
            return await self.ask(calls.lease(workload_id))
        except NotFound:
            return None

    async def _jobs(self) -> list[models.JobView]:
        pages = await self.ask_all(lambda cursor: calls.jobs(live=True, cursor=cursor))
        return [job for page in pages for job in page.jobs]


def _watches(me: models.WhoAmI) -> bool:
    return me.admin or bool(me.leads)


def _whose(me: models.WhoAmI) -> str:
    """Of whom somebody sees everything: ``team`` or ``teams``; empty for admins, who see all."""
    if me.admin:
        return ""
    return "team" if len({*me.teams, *me.leads}) == 1 else "teams"


def _tabs(me: models.WhoAmI, shared: Shared) -> tuple[Tab, ...]:
    watches = _watches(me)
    idle_tab = (Tab(key="idle", label=gettext_noop("Idle"), count=idle.idle_count(shared.idle)),)
    return (
        Tab(key="now", label=gettext_noop("Now")),
        Tab(key="teams", label=gettext_noop("Teams")),
        Tab(key="waiting", label=gettext_noop("Waiting"), count=len(shared.waiting)),
        *(idle_tab if watches else ()),
        Tab(key="evictions", label=gettext_noop("Evictions")),
        Tab(key="report", label=gettext_noop("Report")),
        *((Tab(key="utilisation", label=gettext_noop("Utilisation")),) if watches else ()),
    )
