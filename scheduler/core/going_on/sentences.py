"""A sentence as part of another one; nothing else is imported, for programs that start often."""

from __future__ import annotations

_ORDINARY = frozenset(
    {"A", "An", "It", "Its", "No", "Saving", "Some", "The", "There", "This", "Waking"}
)


def as_clause(sentence: str) -> str:
    """A sentence as part of another one: its first word small, unless it may be a name."""
    text = sentence.strip().rstrip(".")
    first, _, _ = text.partition(" ")
    return text[:1].lower() + text[1:] if first in _ORDINARY else text
