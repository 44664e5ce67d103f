"""What all pages share: login through the hub, headers, errors as readable pages, one renderer.

Login is asked for in ``prepare``, so a new handler cannot forget it. The scheduler's API is called
with the browser user's own token: it alone decides what may be seen or done.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Sequence
from http import HTTPStatus
from types import TracebackType
from typing import Any, TypeVar

from jupyterhub.services.auth import HubOAuth, HubOAuthenticated, UserNotAllowed
from pydantic import BaseModel, ValidationError
from tornado.web import HTTPError, RequestHandler

from gpucommons.scheduler.client import calls
from gpucommons.scheduler.client.calls import Call
from gpucommons.scheduler.errors import BadRequest, Forbidden, NotAuthenticated, SchedulerError
from gpucommons.scheduler.languages.chosen import COOKIE, language_of
from gpucommons.scheduler.languages.texts import (
    answer_in,
    gettext,
    gettext_noop,
    language,
    languages,
    texts_for_scripts,
)
from gpucommons.scheduler.models import JobList, LeaseList, LeaseView, WhoAmI
from gpucommons.scheduler.models.text.field_errors import first_mistake
from gpucommons.scheduler.pages.settings import Site

R = TypeVar("R", bound=BaseModel)
#: What is answered page by page.
P = TypeVar("P", JobList, LeaseList)

log = logging.getLogger(__name__)

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; frame-ancestors 'none'; object-src 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_READS = ("GET", "HEAD")
#: Of one list, after the first; what is further down is not shown.
_MORE_PAGES = 20
#: What may stand behind our own address: browsers take `%2e%2e/`, and more, for a way out of it.
_OF_A_PAGE = re.compile(r"(?!/)[a-z0-9/-]*(\?[\w=&-]*)?", re.ASCII)
#: A chosen language.
_KEPT_DAYS = 365


class Headers(RequestHandler):
    """The headers of every answer, errors and redirects included."""

    site: Site

    def set_default_headers(self) -> None:
        """Called by tornado for each answer, also anew for an error."""
        for name, value in HEADERS.items():
            self.set_header(name, value)
        self.clear_header("Server")


class PageHandler(HubOAuthenticated, Headers):  # type: ignore[misc] # jupyterhub has no types
    """A page for signed-in users."""

    #: The answer of ``/v1/whoami``; None before :meth:`prepare` or without login.
    me: WhoAmI | None = None

    def initialize(self, site: Site) -> None:
        """Take what the application gives."""
        self.site = site
        self.hub_auth: HubOAuth = site.hub_auth
        # Before all else: errors of the login are said in it, too.
        answer_in(language_of(self))

    def get_current_user(self) -> None:
        """Nobody before :meth:`prepare`: the mixin's own way would block the event loop."""
        return

    async def prepare(self) -> None:
        """Ask the hub who this is; nobody gets further without login."""
        model = await self.hub_auth.get_user(self, sync=False)
        try:
            self.current_user = self.check_hub_user(model) if model else None
        except UserNotAllowed:
            raise Forbidden(
                gettext("%(user)s may not open GPU Commons: ask an admin.", user=model["name"])
            ) from None
        if self.current_user is None:
            self.ask_to_log_in()

    def ask_to_log_in(self) -> None:
        """Send the browser to the hub; a write is refused instead, as its body would be lost."""
        if self.request.method in _READS:
            self.redirect(self.get_login_url())
        else:
            raise Forbidden(
                gettext("You are not logged in, or your login has ended. Open the page anew.")
            )

    # --- the scheduler ---------------------------------------------------------------------

    async def ask(self, call: Call[R]) -> R:
        """Send a call with the token of the user in front of the browser."""
        return await self.site.scheduler.send(call, token=self.hub_auth.get_token(self))

    async def whoami(self) -> WhoAmI:
        """The user as the scheduler sees them; asked once per request."""
        if self.me is None:
            self.me = await self.ask(calls.whoami())
        return self.me

    async def leases(self, *states: str) -> list[LeaseView]:
        """All leases in these states: asked for by state, as ended ones fill the pages of a list."""
        lists = await asyncio.gather(*(self._leases(state) for state in states))
        return [lease for found in lists for lease in found]

    async def _leases(self, state: str) -> list[LeaseView]:
        pages = await self.ask_all(lambda cursor: calls.leases(state=state, cursor=cursor))
        return [lease for page in pages for lease in page.leases]

    async def ask_all(self, call: Callable[[str | None], Call[P]]) -> list[P]:
        """The pages of a list, as far as a screen may go."""
        pages = [await self.ask(call(None))]
        while pages[-1].cursor is not None and len(pages) <= _MORE_PAGES:
            pages.append(await self.ask(call(pages[-1].cursor)))
        return pages

    def chosen_days(self, spans: Sequence[int]) -> int:
        """How many days back somebody looks, of those that a page offers; 90 where nothing is said.

        Raises
        ------
        BadRequest
            Of any other number, and of what is none.
        """
        text = self.get_query_argument("days", "90")
        if text not in map(str, spans):
            message = gettext(
                "%(text)s days are not shown: %(spans)s are.",
                text=repr(text[:20]),
                spans=", ".join(map(str, spans)),
            )
            raise BadRequest(message)
        return int(text)

    # --- answers ---------------------------------------------------------------------------

    def show(self, template: str, **values: Any) -> None:
        """Render a page. Jinja escapes every value."""
        page = self.site.templates.get_template(template)
        self.set_header("Content-Type", "text/html; charset=UTF-8")
        self.set_header("Content-Language", language())
        self.finish(
            page.render(
                me=self.me,
                settings=self.site.settings,
                prefix=self.site.settings.prefix,
                hub=self.site.settings.hub_url,
                static=self.static_url,
                xsrf=self.xsrf_token.decode() if self.current_user else "",
                now_ms=self.site.now_ms(),
                language=language(),
                other_language=next(one for one in languages() if one != language()),
                here=self._here(),
                texts=texts_for_scripts(),
                **values,
            )
        )

    def _here(self) -> str:
        """This page below the prefix, to come back to; a form's answer cannot be asked for again.

        Without its query: an old link may hold more than a page should repeat.
        """
        if self.request.method not in _READS:
            return ""
        return self.request.path.removeprefix(self.site.settings.prefix)

    def send_error(self, status_code: int = 500, **kwargs: Any) -> None:
        """Give refusals of the scheduler their own status."""
        error = kwargs.get("exc_info", (None, None))[1]
        if isinstance(error, SchedulerError):
            status_code = error.status
        super().send_error(status_code, **kwargs)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer an error as a page that says what to do."""
        self.show(
            "error.html",
            status=status_code,
            title=_title(status_code),
            message=error_text(status_code, kwargs.get("exc_info", (None, None))[1]),
        )

    def log_exception(
        self,
        typ: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Refusals are ordinary answers; only the rest is worth a stack trace."""
        if isinstance(value, SchedulerError):
            log.info("%s %s: %s", self.request.method, self.request.path, value)
        else:
            super().log_exception(typ, value, tb)


class JsonHandler(PageHandler):
    """The same for scripts of the pages: JSON in, JSON out, errors as ``{error, message}``."""

    def ask_to_log_in(self) -> None:
        """A script cannot follow a login: it is told."""
        raise NotAuthenticated(gettext("Your login has ended. Reload the page to log in again."))

    def body(self, model: type[R]) -> R:
        """Read the request's body."""
        try:
            return model.model_validate_json(self.request.body)
        except ValidationError as error:
            raise BadRequest(first_mistake(error, of="The body")) from None

    def answer(self, value: object) -> None:
        """Send JSON."""
        self.set_header("Content-Type", "application/json; charset=UTF-8")
        self.finish(json.dumps(value))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer an error as JSON."""
        error = kwargs.get("exc_info", (None, None))[1]
        code = error.code if isinstance(error, SchedulerError) else HTTPStatus(status_code).phrase
        self.answer({"error": code, "message": error_text(status_code, error)})


class ChooseLanguage(Headers):
    """The switch in the head of each page: what is chosen is kept in a cookie, by this browser alone.

    Without login and without a form: it changes nothing but the language of who opens it.
    """

    def initialize(self, site: Site) -> None:
        """Take what the application gives."""
        self.site = site

    def get(self, name: str) -> None:
        """Keep it, and go back to where it was chosen."""
        prefix = self.site.settings.prefix
        base = self.site.settings.base_path
        self.set_cookie(COOKIE, name, path=base, expires_days=_KEPT_DAYS, samesite="Lax")
        then = self.get_query_argument("then", "")
        self.redirect(prefix + (then if _OF_A_PAGE.fullmatch(then) else ""))


class NoSuchPage(PageHandler):
    """Every other address."""

    async def prepare(self) -> None:
        """Without asking who: there is nothing to see."""
        raise HTTPError(404, gettext("There is no such page."))


def error_text(status_code: int, error: BaseException | None) -> str:
    """What people are told. Only what was written for them gets out."""
    if isinstance(error, SchedulerError):
        return str(error)
    if isinstance(error, HTTPError) and status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
        if error.log_message and "xsrf" in error.log_message.lower():
            return gettext("This form is no longer valid. Open the page anew and try again.")
        return error.log_message or _title(status_code)
    if status_code in (HTTPStatus.BAD_GATEWAY, HTTPStatus.INTERNAL_SERVER_ERROR) and isinstance(
        error, HTTPError
    ):
        return gettext(
            "JupyterHub cannot be asked who you are. It may be restarting: try again in a moment."
        )
    return gettext("GPU Commons failed to make this page; its log says why.")


def _title(status_code: int) -> str:
    title = {
        403: gettext_noop("Not allowed"),
        404: gettext_noop("Not found"),
        409: gettext_noop("Not possible now"),
        422: gettext_noop("Not accepted"),
        503: gettext_noop("Not reachable"),
    }.get(status_code, HTTPStatus(status_code).phrase)
    return gettext(title)
