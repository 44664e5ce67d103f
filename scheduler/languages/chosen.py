"""Which language somebody reads: what they chose, else what their browser asks for, else English."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from gpucommons.scheduler.languages.texts import ENGLISH, languages

#: Set by the pages' own switch and by the panel, where Lab is shown in another language than English.
#: For all of the hub, whose pages are in it, too.
COOKIE = "gpucommons-language"
#: Of an ``Accept-Language``; more of it is nobody's wish.
_MOST_WISHES = 20


class _Request(Protocol):
    @property
    def headers(self) -> Mapping[str, str]: ...


class Handler(Protocol):
    """As much of tornado's handler of a request as tells who reads its answer."""

    @property
    def request(self) -> _Request: ...  # noqa: D102 - tornado's

    def get_cookie(self, name: str, default: str | None = None) -> str | None: ...  # noqa: D102 - tornado's


def language_of(handler: Handler) -> str:
    """The language of a request's answer."""
    return chosen(
        handler.get_cookie(COOKIE, "") or "",
        handler.request.headers.get("Accept-Language", ""),
        languages(),
    )


def chosen(cookie: str, accepted: str, there: Sequence[str]) -> str:
    """One of ``there``. ``accepted`` is an ``Accept-Language``, as RFC 9110 (12.5.4) has it."""
    return next(
        (
            found
            for wish in (cookie, *_wishes(accepted))
            if (found := _match(wish, there)) is not None
        ),
        ENGLISH,
    )


def _wishes(accepted: str) -> list[str]:
    """The languages of the header, the most wanted first."""
    found: list[tuple[float, str]] = []
    for part in accepted.split(",")[:_MOST_WISHES]:
        name, _, quality = part.partition(";")
        weight = _weight(quality.strip().removeprefix("q="))
        if weight > 0:
            found.append((weight, name.strip()))
    return [name for _, name in sorted(found, key=lambda one: -one[0])]


def _weight(text: str) -> float:
    try:
        return float(text) if text else 1.0
    except ValueError:
        return 0.0


def _match(wish: str, there: Sequence[str]) -> str | None:
    """``de`` for ``de-AT`` and for Lab's ``de_DE``."""
    first = wish.replace("_", "-").partition("-")[0].lower()
    return first if first in there else None
