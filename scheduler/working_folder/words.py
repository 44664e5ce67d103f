"""Amounts of files, and their names, in words: the same on every screen."""

from __future__ import annotations

import unicodedata

_KIB = 1024
#: They choose between the letter and the picture of the sign before them.
_FORMS_OF_PICTURES = frozenset("\ufe0e\ufe0f")
#: Letters and signs to Unicode that show nothing: fillers, the blank of Braille, selectors of forms.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0").union(
    map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE0E), *range(0xE0100, 0xE01F0)))
)


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
    """A name from a job, as one line of text: it may be bytes that are no text, hold controls, or signs
    that are not seen, and look like another.
    """
    return "/".join(map(_shown, name.split("/")))


def _shown(part: str) -> str:
    if part.isspace():
        return "".join(map(_code, part))
    signs = zip(("", *part), part, strict=False)
    return "".join(c if _is_seen(c, after=left) else _code(c) for left, c in signs)


def _is_seen(character: str, *, after: str) -> bool:
    if character in _FORMS_OF_PICTURES:
        return bool(after) and unicodedata.category(after) == "So"
    # Other spaces than the ordinary one stand in names of screenshots: these files are to be opened.
    category = unicodedata.category(character)
    return (character.isprintable() or category == "Zs") and character not in _BLANK


def _code(character: str) -> str:
    code = character.encode("unicode_escape").decode()
    return f"\\x{ord(character):02x}" if code == character else code
