"""A place in line in words: for the hub's form, too, which knows nothing of the core."""

from __future__ import annotations


def ordinal(place: int) -> tuple[str, str]:
    """A place in line as number and ending: ``("1", "st")``."""
    if place % 100 in (11, 12, 13):
        return str(place), "th"
    return str(place), {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")


def place_words(position: int) -> str:
    """A place in line in one word: ``1st``."""
    return "".join(ordinal(position))
