"""Ids that sort by time: lowercase UUIDv7, so that lists by id are lists by age.

The clock and the randomness are arguments: simulations and replays make their own.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from uuid import UUID

_VERSION = 0x7 << 76
_VARIANT = 0b10 << 62
_SEQUENCE_BITS = 12
_TAIL_BITS = 62


def uuid7(at_ms: int, sequence: int, tail: int) -> str:
    """Compose one id from its time, a number that orders ids of the same millisecond, and chance."""
    value = (at_ms & (2**48 - 1)) << 80 | _VERSION | _VARIANT
    value |= (sequence & (2**_SEQUENCE_BITS - 1)) << 64 | tail & (2**_TAIL_BITS - 1)
    return str(UUID(int=value))


def made_ms(any_id: str) -> int:
    """When an id was made; 0 for what is none of ours."""
    try:
        return UUID(any_id).int >> 80
    except ValueError:
        return 0


class IdSource(Iterator[str]):
    """An endless supply of ids that never go backwards, safe to share between threads."""

    def __init__(
        self,
        now: Callable[[], int],
        random_bits: Callable[[int], int] = secrets.randbits,
    ) -> None:
        self._now = now
        self._random_bits = random_bits
        self._lock = threading.Lock()
        self._last_ms = 0
        self._sequence = 0

    def __next__(self) -> str:
        with self._lock:
            at_ms = self._now()
            if at_ms > self._last_ms:
                self._last_ms, self._sequence = at_ms, 0
            else:
                self._sequence += 1
                if self._sequence >> _SEQUENCE_BITS:
                    # More than 4096 in a millisecond: borrow from the next one.
                    self._last_ms, self._sequence = self._last_ms + 1, 0
            return uuid7(self._last_ms, self._sequence, self._random_bits(_TAIL_BITS))
