"""Who may save processes when: those who are stopped at once share one disk.

Each says how long its saving takes, by its memory and the disk's measured rate, and until when it
must be over. It gets the time behind those who came before it, or none: then it asks again, as others
need less than they said, until it could not be done in time any more.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """A stretch of time in which one may write."""

    from_ms: int
    to_ms: int


def turn_for(busy_until_ms: int, *, now_ms: int, need_ms: int, by_ms: int) -> Turn | None:
    """The next turn of so long; None where it would not be over in time."""
    start = max(now_ms, busy_until_ms)
    return Turn(from_ms=start, to_ms=start + need_ms) if start + need_ms <= by_ms else None


def take_turn(path: Path, *, now_ms: int, need_ms: int, by_ms: int) -> Turn | None:
    """Have a turn on the disk whose bookkeeping lies in this file; None where there is none in time."""
    with _held(path) as descriptor:
        found = turn_for(
            _busy_until_ms(descriptor, by_ms), now_ms=now_ms, need_ms=need_ms, by_ms=by_ms
        )
        if found is not None:
            _write(descriptor, found.to_ms)
    return found


def give_back(path: Path, turn: Turn, *, now_ms: int) -> None:
    """It took less: whoever comes next need not wait, unless somebody stands behind it already."""
    with _held(path) as descriptor:
        if _busy_until_ms(descriptor, turn.to_ms) == turn.to_ms:
            _write(descriptor, min(turn.to_ms, now_ms))


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Nobody else looks meanwhile how much may be saved, or has a turn."""
    with _held(path):
        yield


@contextmanager
def _held(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _busy_until_ms(descriptor: int, usual: int) -> int:
    """As it is written there; what cannot be read counts as busy, so that nobody waits in vain."""
    text = os.pread(descriptor, 64, 0)
    if not text:
        return 0
    try:
        return int(json.loads(text))
    except (TypeError, ValueError):
        os.ftruncate(descriptor, 0)
        return usual


def _write(descriptor: int, until_ms: int) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(until_ms).encode(), 0)
