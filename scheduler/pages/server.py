"""The pages as a service of the hub: one tornado application on one local port.

It runs inside the scheduler's asyncio loop, but talks to the scheduler through ``/v1`` only.
"""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import jinja2
from jupyterhub.services.auth import HubOAuthCallbackHandler
from tornado.netutil import bind_sockets
from tornado.web import Application, RedirectHandler, RequestHandler, StaticFileHandler

from gpucommons.gpu.connections import unix_sockets
from gpucommons.gpu.connections.listening import BACKLOG
from gpucommons.scheduler.client import AsyncSchedulerClient
from gpucommons.scheduler.languages.sentences import sentence, translated
from gpucommons.scheduler.languages.texts import languages, of_template, of_template_many
from gpucommons.scheduler.models.text.number_words import decimal
from gpucommons.scheduler.models.text.report_rows import simulated_note
from gpucommons.scheduler.pages import (
    admin,
    admin_writes,
    api_docs,
    budgets,
    calibration,
    my_page,
    notifications,
    ticket,
)
from gpucommons.scheduler.pages.base import ChooseLanguage, Headers, NoSuchPage, PageHandler
from gpucommons.scheduler.pages.bounded_server import BoundedServer
from gpucommons.scheduler.pages.present import words
from gpucommons.scheduler.pages.reports import files, utilisation
from gpucommons.scheduler.pages.settings import PagesSettings, Site, new_hub_auth

__all__ = ["PagesSettings", "Server", "application", "start"]

_HERE = Path(__file__).parent
_ID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


class Callback(PageHandler, HubOAuthCallbackHandler):  # type: ignore[misc] # jupyterhub has no types
    """End of the login."""

    async def prepare(self) -> None:
        """Nobody is logged in yet: that is what the visit is for."""


class AddSlash(Headers, RedirectHandler):
    """The prefix without its slash."""


class DropSlash(Headers, RedirectHandler):
    """A page with a slash too many, as people type it."""


class Static(Headers, StaticFileHandler):
    """Scripts and styles; nothing in them is secret."""

    def set_extra_headers(self, path: str) -> None:
        """Addresses that carry a hash are kept for good, others are asked about each time."""
        if not self.get_argument("v", ""):
            self.set_header("Cache-Control", "no-cache")


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """The running pages."""

    port: int
    #: With the prefix, as the hub's service entry names it without: ``http://host:port``.
    url: str
    _http: BoundedServer
    _scheduler: AsyncSchedulerClient
    _sockets: tuple[socket.socket, ...]

    async def stop(self) -> None:
        """Take no more requests, finish those under way, let go of the port."""
        await self._http.end()
        for one in self._sockets:
            one.close()
        await self._scheduler.close()


def templates() -> jinja2.Environment:
    """The renderer: every value is escaped, a missing one is an error."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.add_extension("jinja2.ext.i18n")
    environment.install_gettext_callables(  # type: ignore[attr-defined] # of the extension
        of_template, of_template_many, newstyle=True
    )
    environment.filters |= {
        "iso": words.iso,
        "clock": words.clock,
        "sentence": sentence,
        "dated": words.dated,
        "gpus": words.gpus,
        "number": words.amount,
        "hours": words.hours,
        "column": words.column,
        "decimal": decimal,
        "simulated_note": simulated_note,
    }
    environment.tests["in_readers_words"] = lambda text: translated(text) is not None
    return environment


#: Below the prefix.
_PAGES: tuple[tuple[str, type[RequestHandler]], ...] = (
    ("", my_page.MyPage),
    ("oauth_callback", Callback),
    ("ticket", ticket.NewTicket),
    ("ticket/chosen", ticket.FromTheHub),
    (f"ticket/({_ID})", ticket.Ticket),
    (f"ticket/({_ID})/state", ticket.TicketJson),
    (f"ticket/({_ID})/take", ticket.TakeSmaller),
    (f"ticket/({_ID})/unblock", ticket.Unblock),
    (f"ticket/({_ID})/leave", ticket.LeaveTheLine),
    (f"ticket/({_ID})/cpu", ticket.CpuNow),
    (f"language/({'|'.join(languages())})", ChooseLanguage),
    ("calibration", calibration.Calibration),
    ("notifications", notifications.Notifications),
    ("notifications/test", notifications.SendTest),
    ("notifications/confirm", notifications.Confirm),
    ("docs", api_docs.ApiDocs),
    (r"docs/openapi\.json", api_docs.ApiDocument),
    ("admin/report.csv", files.ReportCsv),
    ("admin/report.parquet", files.ReportParquet),
    ("admin/utilisation.csv", utilisation.UtilisationCsv),
    ("admin/more", admin_writes.ReplayOnMore),
    ("admin/budgets", budgets.SaveBudget),
    ("admin/quotas/check", admin_writes.CheckQuotas),
    ("admin/quotas/replay", admin_writes.ReplayQuotas),
    ("admin/quotas", admin_writes.SaveQuotas),
    (f"admin/reclaim/({_ID})", admin_writes.Reclaim),
    ("admin(?:/(now|teams|waiting|idle|evictions|report|utilisation))?", admin.Admin),
)


def application(site: Site) -> Application:
    """Every address of the pages."""
    given, prefix = {"site": site}, site.settings.prefix
    return Application(
        [
            (prefix.rstrip("/"), AddSlash, {"url": prefix}),
            (
                f"{prefix}((?:ticket|admin|docs|calibration|notifications)(?:/[0-9a-z-]+)?)/+",
                DropSlash,
                {"url": prefix + "{0}", "permanent": False},
            ),
            *((prefix + path, handler, given) for path, handler in _PAGES),
        ],
        default_handler_class=NoSuchPage,
        default_handler_args=given,
        cookie_secret=site.settings.cookie_secret,
        xsrf_cookies=True,
        static_path=str(_HERE / "static"),
        static_url_prefix=f"{prefix}static/",
        static_handler_class=Static,
        last_hour=admin.LastHour(),
    )


async def start(
    settings: PagesSettings, *, transport: httpx.AsyncBaseTransport | None = None
) -> Server:
    """Listen; returns once the port is open. ``transport`` replaces the network in tests."""
    scheduler = AsyncSchedulerClient(settings.api_url, transport=transport)
    site = Site(
        settings=settings,
        hub_auth=new_hub_auth(settings),
        templates=templates(),
        scheduler=scheduler,
        now_ms=lambda: time.time_ns() // 1_000_000,
    )
    http = BoundedServer(application(site))
    sockets = tuple(bind_sockets(settings.port, settings.host, backlog=BACKLOG))
    port = int(sockets[0].getsockname()[1])
    if settings.forwarded is not None:
        sockets += (unix_sockets.listen(settings.forwarded, backlog=BACKLOG),)
    http.listen_on(sockets)
    return Server(
        port=port,
        url=f"http://{settings.host}:{port}",
        _http=http,
        _scheduler=scheduler,
        _sockets=sockets,
    )
