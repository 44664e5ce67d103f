"""Numbers as the reader's language writes them."""

from __future__ import annotations

from gpucommons.scheduler.languages.texts import gettext


def decimal(number: str) -> str:
    """A formatted number with the decimal sign of the reader's language, as its catalogue writes one and a half."""
    return number.replace(".", gettext("1.5")[1])
