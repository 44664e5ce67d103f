"""Answers that are kept for who asks again: a bounded number of them, the newest."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def keep(known: MutableMapping[K, V], asked: K, answer: V, *, most: int) -> None:
    """Keep an answer as the newest; of more than ``most`` the oldest go."""
    known.pop(asked, None)
    known[asked] = answer
    while len(known) > most:
        del known[next(iter(known))]
