"""How much longer something may run where too few runs like it have ended to say it well.

A distribution from little: what declared limits leave, what the few like runs took, else what jobs
and notebooks typically take. It is wide on purpose, evenly spread over orders of magnitude rather
than over minutes, and what rests on it is told as a range with little to judge by.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpucommons.scheduler.core.model.types import Kind

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
#: From a try that fails at once to a night of training; from a look at a table to a working day.
_TYPICAL = {Kind.NOTEBOOK: (15 * _MINUTE_MS, 10 * _HOUR_MS)}
_TYPICAL_JOB = (2 * _MINUTE_MS, 12 * _HOUR_MS)
#: So many like runs say nearly as much as they ever will about the order of magnitude.
_ENOUGH = 5
#: The next run may be so much shorter or longer than all of a few.
_FURTHER = 3
#: Of what has run for long already, nine of ten go on for at least and at most this part of it.
_LEAST, _MOST = 0.1, 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Typical:
    """A rest between two lengths, each order of magnitude in between as likely as the next."""

    shortest_ms: int
    longest_ms: int

    def left_ms(self, share: float) -> int:
        """The rest that ``share`` of such runs do not pass."""
        low = max(1, self.shortest_ms)
        high = max(low, self.longest_ms)
        return round(low * math.pow(high / low, share))


def typical(kind: Kind, like_ms: Sequence[int], done_ms: int, limit_ms: int | None) -> Typical:
    """From what is declared and the few like runs that have ended.

    Fewer than a handful do not narrow what is typical; they only move it where they lie outside.
    """
    short_ms, long_ms = _TYPICAL.get(kind, _TYPICAL_JOB)
    if like_ms:
        least_ms, most_ms = min(like_ms) // _FURTHER, max(like_ms) * _FURTHER
        few = len(like_ms) < _ENOUGH
        short_ms = min(short_ms, least_ms) if few else least_ms
        long_ms = max(long_ms, most_ms) if few else most_ms
    shortest_ms = max(short_ms - done_ms, round(done_ms * _LEAST), _MINUTE_MS // 2)
    longest_ms = max(long_ms - done_ms, round(done_ms * _MOST), shortest_ms)
    if limit_ms is not None:
        longest_ms = min(longest_ms, limit_ms)
    return Typical(shortest_ms=min(shortest_ms, longest_ms), longest_ms=longest_ms)
