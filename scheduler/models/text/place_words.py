"""A place in line in words: for the hub's form, too, which knows nothing of the core."""

from __future__ import annotations

from gpucommons.scheduler.languages.texts import ENGLISH, gettext, language


def ordinal(place: int) -> tuple[str, str]:
    """A place in line as number and ending: ``("1", "st")``."""
    if language() != ENGLISH:
        return f"{place}.", ""
    if place % 100 in (11, 12, 13):
        return str(place), "th"
    return str(place), {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")


def ordinal_words(position: int) -> str:
    """``1st``, ``1.``."""
    return "".join(ordinal(position))


def place(position: int) -> str:
    """``1st in line``."""
    return gettext("%(place)s in line", place=ordinal_words(position))
