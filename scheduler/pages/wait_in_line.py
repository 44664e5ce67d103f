"""*Wait in line* was pressed in the hub's own form: that is the answer, so it is not asked again.

The press arrives before the login, and the login is a detour of redirects. A cookie that we sign carries
the press over it: for the very address that it leads to, for a few minutes, once.

Whose press it was, nobody knows yet. Where notebooks have hosts of their own below the hub's, one of
them could put the cookie of its owner's press into a visitor's browser. Browsers let nobody do so with a
name that begins with ``__Host-``, which they take over https alone; else everybody is asked.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from tornado.httputil import HTTPServerRequest

from gpucommons.scheduler.pages.settings import PagesSettings

if TYPE_CHECKING:
    from gpucommons.scheduler.pages.base import Headers

_COOKIE = "gpucommons-pressed"
_HTTPS = "https://"
_MINUTE_DAYS = 1 / (24 * 60)
_KEPT_MINUTES = 5


def is_of_the_hub(request: HTTPServerRequest, settings: PagesSettings) -> bool:
    """Whether a page of the hub's own origin sent this; browsers let no page choose what it says."""
    origin = request.headers.get("Origin", "")
    if settings.hub_host:
        return origin == settings.hub_host and settings.hub_host.startswith(_HTTPS)
    return origin in (f"http://{request.host}", _HTTPS + request.host)


def remember_pressed(handler: Headers, query: str) -> None:
    """Let the browser bring the press along to this address."""
    name, path = _cookie(handler)
    handler.set_signed_cookie(
        name,
        _mark(query),
        expires_days=None,
        path=path,
        httponly=True,
        samesite="Lax",
        secure=name != _COOKIE or handler.request.protocol == "https",
    )


def was_pressed(handler: Headers) -> bool:
    """Whether the press was for this very address; it counts once."""
    name, path = _cookie(handler)
    kept = handler.get_signed_cookie(name, max_age_days=_KEPT_MINUTES * _MINUTE_DAYS)
    if kept is None:
        return False
    handler.clear_cookie(name, path=path, secure=name != _COOKIE)
    return kept.decode() == _mark(handler.request.query)


def _mark(query: str) -> str:
    return sha256(query.encode()).hexdigest()


def _cookie(handler: Headers) -> tuple[str, str]:
    """Its name and path."""
    settings = handler.site.settings
    if settings.hub_host:
        return f"__Host-{_COOKIE}", "/"
    return _COOKIE, f"{settings.prefix}ticket"
