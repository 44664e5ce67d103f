"""The page of one's own: quotas of my teams, what is free, what I have."""

from __future__ import annotations

import asyncio

from gpucommons.scheduler.client import calls
from gpucommons.scheduler.languages.texts import ENGLISH, gettext, gettext_noop, language
from gpucommons.scheduler.models.text.end_words import kept_text, last_end_text
from gpucommons.scheduler.pages.base import PageHandler
from gpucommons.scheduler.pages.budgets import of_led_teams
from gpucommons.scheduler.pages.present.overview import mine, pool_lines, team_lines

_SAID = {"left": gettext_noop("You left the line. Nothing is held or started for you.")}


class MyPage(PageHandler):
    """What a signed-in user sees first."""

    async def get(self) -> None:
        """Show it."""
        me = await self.whoami()
        teams, pools, offers, leases, jobs = await asyncio.gather(
            self.ask(calls.teams()),
            self.ask(calls.pools()),
            self.ask(calls.offers()),
            self.leases("waiting", "granted", "active", "warned"),
            self.ask(calls.jobs(owner=me.name, live=True)),
        )
        settings = self.site.settings
        last_end, is_translated = last_end_text(offers)
        is_open = any(one.user == me.name and one.server_name == "" for one in leases)
        self.show(
            "start.html",
            active="start",
            teams=team_lines(teams.teams, pools.pools, offers.offers),
            pools=pool_lines(pools.pools, offers.offers),
            mine=mine(
                me.name,
                leases,
                jobs.jobs,
                lab_url=lambda server: settings.lab_url(me.name, server),
            ),
            budgets=await of_led_teams(self, me),
            simulated=any(pool.simulated for pool in pools.pools),
            # Of an earlier one, where a notebook runs or waits now.
            last_end="" if is_open else last_end,
            last_end_in=language() if is_translated else ENGLISH,
            kept="" if offers.kept is None else kept_text(offers.kept),
            again_url=None if is_open else settings.spawn_url(me.name, "", "opt-again=1"),
            data_ms=pools.now_ms,
            spawn_url=settings.spawn_url(me.name, ""),
            said=gettext(_SAID.get(self.get_query_argument("said", ""), "")),
        )
