"""Amounts of files, and their names, in words: the same on every screen."""

from __future__ import annotations

import unicodedata

_KIB = 1024


def size(size_bytes: int) -> str:
    """``812 B``, ``4.1 KiB``, ``12.0 MiB``."""
    amount, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if amount < _KIB:
            break
        amount, unit = amount / _KIB, larger
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"


def files(count: int) -> str:
    """``1 file``, ``2,000 files``."""
    return "1 file" if count == 1 else f"{count:,} files"


def shown(name: str) -> str:
    """A name from a job, as one line of text: it may be bytes that are no text, or hold controls."""
    return "".join(c if _is_text(c) else c.encode("unicode_escape").decode() for c in name)


def _is_text(character: str) -> bool:
    # Other spaces than the ordinary one stand in names of screenshots: these files are to be opened.
    return character.isprintable() or unicodedata.category(character) == "Zs"
