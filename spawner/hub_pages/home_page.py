"""What JupyterHub's home page says of servers that do not run: a place in line, or how they ended.

The hub's template asks while it is rendered. Only what the scheduler knows is said; one that is away
costs the page two seconds and these lines, nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from gpucommons.scheduler.errors import SchedulerError
from gpucommons.scheduler.languages.texts import gettext, language
from gpucommons.scheduler.models import OfferList
from gpucommons.spawner.form.form import place_in_line
from gpucommons.spawner.form.start_again import again_url
from gpucommons.spawner.hub_pages.stopped_page import Stopped, stopped_words

_PATIENCE_S = 2.0
#: Of one user, the default server included; each is a question to the scheduler.
_MOST_SERVERS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Notice:
    """One server's lines."""

    #: Empty for the default server.
    server_name: str
    text: str
    #: The language of it: some of the scheduler's reasons are English.
    text_in: str
    #: What is kept and what is not.
    more: tuple[str, ...]
    link: str
    label: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Links:
    """Where a server is started, and where its place in line is shown."""

    spawn: str
    ticket: str


def notice(
    offers: OfferList,
    last: Mapping[str, object],
    *,
    server_name: str,
    keeps_files: bool,
    links: Links,
) -> Notice | None:
    """Decide what is said of one server; None where nothing is known."""
    place = place_in_line(offers.ticket)
    if place is not None and offers.ticket is not None:
        forecast = offers.ticket.forecast
        return Notice(
            server_name=server_name,
            text=place,
            text_in=language(),
            more=() if forecast is None else (forecast.text,),
            link=f"{links.ticket}/{offers.ticket.id}",
            label=gettext("See your place"),
        )
    ended = stopped_words(offers, last, keeps_files=keeps_files)
    link = again_url(links.spawn) if ended.size else links.spawn
    if not ended.why:
        return _not_running(server_name, ended, link)
    kept = (gettext("Kept: %(what)s", what=text) for text in ended.kept)
    lost = (gettext("Not kept: %(what)s", what=text) for text in ended.lost)
    return Notice(
        server_name=server_name,
        text=ended.why,
        text_in=ended.why_in,
        more=(*kept, *lost, *filter(None, (ended.again,))),
        link=link,
        label=ended.start,
    )


def _not_running(server_name: str, ended: Stopped, link: str) -> Notice | None:
    """Of a server that its own user stopped, what was started last: why it ended they know."""
    if not ended.size and not ended.kernels:
        return None
    last = gettext("Last started on %(size)s.", size=ended.size) if ended.size else ""
    return Notice(
        server_name=server_name,
        text=" ".join(filter(None, (gettext("Not running."), last))),
        text_in=language(),
        more=tuple(filter(None, (ended.kernels, ended.again))),
        link=link,
        label=ended.start,
    )


async def notices(user: Any, hub_url: str) -> tuple[Notice, ...]:
    """For the template: ask the scheduler, but not for long."""
    names = list(dict.fromkeys(("", *user.orm_user.orm_spawners)))[:_MOST_SERVERS]
    spawners = [user.spawners[name] for name in names]
    # A hub may have other spawners beside ours; of a server that runs there is nothing to say.
    ours = [one for one in spawners if getattr(one, "scheduler_url", "") and not one.active]
    found = await asyncio.gather(
        *(_of(spawner, f"{hub_url}spawn/{user.escaped_name}") for spawner in ours)
    )
    return tuple(one for one in found if one is not None)


async def _of(spawner: Any, path: str) -> Notice | None:
    try:
        offers = await asyncio.wait_for(spawner.offers(), _PATIENCE_S)
    except (SchedulerError, TimeoutError) as error:
        spawner.log.warning("How %s ended is not known: %s", spawner._log_name, error)
        return None
    last = spawner.orm_spawner.user_options if spawner.orm_spawner else None
    return notice(
        offers,
        last or {},
        server_name=spawner.name,
        keeps_files=spawner.keeps_files(),
        links=Links(
            spawn=f"{path}/{quote(spawner.name, safe='')}" if spawner.name else path,
            ticket=spawner.ticket_url,
        ),
    )
