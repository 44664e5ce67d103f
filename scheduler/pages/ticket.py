"""Waiting in line: a page that asks, a page that shows the place, and the ways out of the line.

A ticket is the scheduler's; no hub spawn is pending while it waits. So a hub restart, a closed
browser or a restart of these pages loses nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from urllib.parse import urlencode

from pydantic import ValidationError

from gpucommons.scheduler.client import calls
from gpucommons.scheduler.errors import BadRequest, Conflict, Forbidden
from gpucommons.scheduler.languages.texts import gettext
from gpucommons.scheduler.models import EndReport, LeaseRequest, LeaseView
from gpucommons.scheduler.pages.base import Headers, JsonHandler, PageHandler
from gpucommons.scheduler.pages.present.ticket import (
    TicketState,
    Viewer,
    choices,
    offer_for,
    ticket_state,
)
from gpucommons.scheduler.pages.settings import Site
from gpucommons.scheduler.pages.ticket_request import Wish, for_address, of_profile, read_wish
from gpucommons.scheduler.pages.wait_in_line import is_of_the_hub, remember_pressed, was_pressed

_IN_LINE = ("waiting", "granted")
_SIZE = re.compile(r"[0-9]{1,7}")
_MAX_QUERY_CHARACTERS = 8 << 10
#: Who has just come into line is looked at within a second or two: so long the page waits for it.
FORECAST_DELAYS_S = (0.3, 0.5, 0.7, 1.0)


class NewTicket(PageHandler):
    """Ask first: a link alone never puts anybody in line. Who pressed *Wait in line* has answered."""

    async def get(self) -> None:
        """Show the sizes; with no size in the address, an existing ticket."""
        pressed = was_pressed(self)
        me = await self.whoami()
        wish = read_wish(self._fields(self.request.query_arguments))
        offers = await self.ask(calls.offers(server_name=wish.server_name))
        ticket = offers.ticket if offers.ticket and offers.ticket.state in _IN_LINE else None
        if ticket and not self.request.query_arguments:
            self.redirect(f"{self.site.settings.prefix}ticket/{ticket.id}")
            return
        if pressed and (ticket is None or _is_for(ticket, wish)):
            await self._take(wish)
            return
        offer = offer_for(offers.offers, wish.team, wish.pool)
        self.show(
            "new_ticket.html",
            offer=offer,
            simulated=bool(offer and offer.simulated),
            choices=choices(offer) if offer else (),
            wish=wish,
            ticket=ticket,
            cpu_url=_cpu_url(self, me.name, wish.server_name, _options(wish)),
        )

    async def post(self) -> None:
        """Take a ticket and go to its page."""
        await self._take(read_wish(self._fields(self.request.body_arguments)))

    async def _take(self, wish: Wish) -> None:
        if wish.milli_gpu is None:
            raise BadRequest(gettext("Choose a size first."))
        request = _lease_request(
            milli_gpu=wish.milli_gpu,
            team=wish.team or None,
            pool=wish.pool or None,
            server_name=wish.server_name,
            environment=wish.environment,
            **({"on_idle": wish.on_idle} if wish.on_idle else {}),
            **({"kernels_kept_days": wish.kernels_kept_days} if wish.kernels_kept_days else {}),
            others=wish.others,
        )
        lease = await self.ask(calls.wait_in_line(request))
        self.redirect(f"{self.site.settings.prefix}ticket/{lease.id}", status=303)

    def _fields(self, names: Iterable[str]) -> dict[str, list[str]]:
        return {name: self.get_arguments(name) for name in names}


class FromTheHub(Headers):
    """Where the hub's form is posted: leads to the new ticket, with what may be in an address.

    A post, as a form with all its fields would else be written into the address. It may come from
    anybody and without login, for it reads and changes nothing: who comes from elsewhere is asked.
    """

    def initialize(self, site: Site) -> None:
        """Take what the application gives."""
        self.site = site

    def check_xsrf_cookie(self) -> None:
        """The hub's page has the hub's token, not ours."""

    def post(self) -> None:
        """Go on to :class:`NewTicket`."""
        given = {name: self.get_arguments(name) for name in self.request.body_arguments}
        query = urlencode(for_address(given), doseq=True)
        if len(query) > _MAX_QUERY_CHARACTERS:
            # Proxies refuse longer ones, with words of their own or none.
            self.set_status(422)
            self.finish("What was chosen is too long to wait in line with: choose shorter values.")
            return
        if is_of_the_hub(self.request, self.site.settings):
            remember_pressed(self, query)
        self.redirect(f"{self.site.settings.prefix}ticket?{query}", status=303)


class _OneTicket(PageHandler):
    async def lease(self, ticket_id: str) -> LeaseView:
        """The ticket as it is now."""
        return await self.ask(calls.lease(ticket_id))

    async def state(self, ticket_id: str) -> tuple[LeaseView, TicketState]:
        """The ticket and what is shown of it."""
        me = await self.whoami()
        lease = await self.lease(ticket_id)
        settings = self.site.settings
        follow_url = settings.lab_url(lease.user, lease.server_name)
        viewer = Viewer(name=me.name, follow_url=follow_url)
        if lease.state != "waiting":
            now_ms = self.site.now_ms()
            shown = ticket_state(lease, (), None, now_ms=now_ms, viewer=viewer)
            return lease, shown
        offers, leases = await asyncio.gather(
            self.ask(calls.offers(server_name=lease.server_name)),
            self.leases("granted", "active", "warned"),
        )
        shown = ticket_state(
            lease,
            leases,
            offer_for(offers.offers, lease.team, lease.pool),
            now_ms=offers.now_ms,
            viewer=viewer,
        )
        return lease, shown


class Ticket(_OneTicket):
    """One ticket's page."""

    async def lease(self, ticket_id: str) -> LeaseView:
        """The ticket with its likely start, for which it waits a moment: it is what people came for."""
        lease = await super().lease(ticket_id)
        for delay_s in FORECAST_DELAYS_S:
            if lease.state != "waiting" or lease.forecast is not None:
                break
            await asyncio.sleep(delay_s)
            lease = await super().lease(ticket_id)
        return lease

    async def get(self, ticket_id: str) -> None:
        """Show the place in line; a script keeps it fresh."""
        me = await self.whoami()
        lease, state = await self.state(ticket_id)
        pending = f"{self.site.settings.hub_url}home"
        self.show(
            "ticket.html",
            lease=lease,
            state=state,
            simulated=state.simulated,
            data_ms=self.site.now_ms(),
            mine=lease.user == me.name,
            again_url=f"{self.site.settings.prefix}ticket?{_query(lease)}",
            home_url=pending,
        )


class TicketJson(_OneTicket, JsonHandler):
    """The same for the page's script."""

    async def get(self, ticket_id: str) -> None:
        """Everything that changes."""
        _, state = await self.state(ticket_id)
        self.answer(asdict(state))


class _OwnTicket(PageHandler):
    async def own(self, ticket_id: str) -> LeaseView:
        """The ticket of who asks.

        Team mates, leads and admins see it, too: the next step would be one of their own with what
        its owner chose.
        """
        me = await self.whoami()
        lease = await self.ask(calls.lease(ticket_id))
        if lease.user != me.name:
            raise Forbidden(
                gettext("This is a ticket of %(user)s's: take one of your own.", user=lease.user)
            )
        return lease


class TakeSmaller(_OwnTicket):
    """*Take ½*: a smaller size keeps the age of the ticket."""

    async def post(self, ticket_id: str) -> None:
        """Ask again with the smaller size."""
        lease = await self.own(ticket_id)
        milli_gpu = _smaller(self.get_body_argument("milli_gpu"), lease.milli_gpu)
        if lease.state != "waiting":
            raise Conflict(
                gettext("This ticket no longer waits: open its page to see where it stands.")
            )
        request = _lease_request(
            milli_gpu=milli_gpu,
            team=lease.team,
            pool=lease.pool,
            server_name=lease.server_name,
            environment=lease.environment,
            others=lease.other_options,
        )
        smaller = await self.ask(calls.wait_in_line(request))
        self.redirect(f"{self.site.settings.prefix}ticket/{smaller.id}", status=303)


class Unblock(_OwnTicket):
    """*Release it*: give up what of one's own alone is in the way."""

    async def post(self, ticket_id: str) -> None:
        """Do what the page offered, if it still is in the way."""
        lease = await self.own(ticket_id)
        blocker = None if lease.reason is None else lease.reason.blocker
        if blocker is None or blocker.id != self.get_body_argument("holder"):
            raise Conflict(gettext("That is no longer in the way: open the ticket to see what is."))
        match blocker.action:
            case "release":
                await self.ask(calls.drop(blocker.id))
            case "leave":
                await self.ask(calls.end_lease(blocker.id, EndReport(why="left")))
            case "pause":
                await self.ask(calls.pause(blocker.id))
            case _:
                raise Forbidden(
                    gettext("It is not yours: ask its user whether it is still needed.")
                )
        self.redirect(f"{self.site.settings.prefix}ticket/{ticket_id}", status=303)


class LeaveTheLine(PageHandler):
    """*Leave the line*."""

    async def post(self, ticket_id: str) -> None:
        """End the ticket; nothing is started."""
        await self.ask(calls.end_lease(ticket_id, EndReport(why="left")))
        self.redirect(f"{self.site.settings.prefix}?said=left", status=303)


class CpuNow(_OwnTicket):
    """*CPU now*: end the ticket and start without a GPU."""

    async def post(self, ticket_id: str) -> None:
        """End the ticket, then let the hub start the server."""
        await self.own(ticket_id)
        lease = await self.ask(calls.end_lease(ticket_id, EndReport(why="left")))
        self.redirect(_cpu_url(self, lease.user, lease.server_name, _options(lease)), status=303)


def _smaller(size: str, than: int) -> int:
    if not _SIZE.fullmatch(size) or not 0 < int(size) < than:
        message = gettext(
            "%(size)s is not a smaller size: choose less than %(most)s milli-GPU.",
            size=repr(size[:20]),
            most=than,
        )
        raise BadRequest(message)
    return int(size)


def _is_for(ticket: LeaseView, wish: Wish) -> bool:
    """Whether this very place is asked for once more: then it is only shown."""
    asked = (wish.team, wish.pool, wish.milli_gpu)
    return (ticket.team, ticket.pool, ticket.milli_gpu) == asked


def _lease_request(*, others: Mapping[str, Sequence[str]], **fields: object) -> LeaseRequest:
    try:
        return LeaseRequest.model_validate(fields | ({"other_options": others} if others else {}))
    except ValidationError as error:
        first = error.errors()[0]
        raise BadRequest(f"{(*first['loc'], 'milli_gpu')[0]}: {first['msg']}.") from None


def _query(lease: LeaseView) -> str:
    return urlencode(
        {
            "milli_gpu": lease.milli_gpu,
            "team": lease.team,
            "pool": lease.pool,
            "server_name": lease.server_name,
            "environment": lease.environment,
            **of_profile(lease.other_options),
        },
        doseq=True,
    )


def _options(chosen: Wish | LeaseView) -> dict[str, str | Sequence[str]]:
    """What a start without a GPU keeps of what was chosen."""
    others = chosen.others if isinstance(chosen, Wish) else chosen.other_options
    return {**others, **({"environment": chosen.environment} if chosen.environment else {})}


def _cpu_url(
    handler: PageHandler, user: str, server_name: str, options: Mapping[str, str | Sequence[str]]
) -> str:
    query = urlencode({"milli_gpu": "0", **options}, doseq=True)
    return handler.site.settings.spawn_url(user, server_name, query)
