"""Culls that lose variables over 10,000 pretended idle sessions, without and with hibernation.

Nobody's sessions were recorded: memory, absence and what stands in the way are drawn from what this
file states, and only the rules (limits, dates, what was used last first) are those of the product. So
the row says what the rules do to such sessions, not what your users will see.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from gpucommons.labextension.hibernation.keeping_limits import DAY_MS, Candidate, Limits, refused

_MIB, _GIB = 1 << 20, 1 << 30
SESSIONS = 10_000
_USERS = 200
#: A kernel's memory: half have less than 400 MiB, one in a hundred more than 6 GiB.
_MEDIAN_MIB, _SPREAD = 400, 1.2
#: How long its user is away: half less than 15 h, some 3 % longer than 9 days.
_MEDIAN_H, _AWAY_SPREAD = 15, 1.45
_DISK_BYTES = 2_000 * _GIB
#: Of a thousand kernels, how many hold what cannot be saved (``docs/explanation/hibernation.md``).
_OBSTACLES_PERMILLE = 10


@dataclass(frozen=True, kw_only=True)
class _Kept:
    user: int
    bytes: int
    until_ms: int


def idle_row(seed: int = 7) -> dict[str, object]:
    """Play them in the order in which they become idle, one every five minutes."""
    chance, limits = random.Random(seed), Limits()  # noqa: S311 - the same again
    kept: list[_Kept] = []
    lost: Counter[str] = Counter()
    for number in range(SESSIONS):
        now_ms = number * 5 * 60_000
        kept = [one for one in kept if one.until_ms > now_ms]
        user = chance.randrange(_USERS)
        size = int(chance.lognormvariate(0, _SPREAD) * _MEDIAN_MIB) * _MIB
        away_ms = int(chance.lognormvariate(0, _AWAY_SPREAD) * _MEDIAN_H * 3_600_000)
        if chance.randrange(1000) < _OBSTACLES_PERMILLE:
            lost["it held what cannot be saved"] += 1
            continue
        one = Candidate(kernel_id="k", bytes=size, last_activity=str(now_ms))
        elsewhere = sum(other.bytes for other in kept if other.user == user)
        free = _DISK_BYTES - sum(other.bytes for other in kept)
        if refused([one], limits, free_bytes=free, elsewhere_bytes=elsewhere):
            lost["its user's limit or the disk was full"] += 1
            continue
        until_ms = min(now_ms + away_ms, limits.kept_until_ms(now_ms))
        kept.append(_Kept(user=user, bytes=size, until_ms=until_ms))
        if away_ms > limits.days * DAY_MS:
            lost["its user came back after its date"] += 1
    return {
        "what": "idle",
        "sessions": SESSIONS,
        "lost_without": SESSIONS,
        "lost_with": sum(lost.values()),
        "lost_percent": round(100 * sum(lost.values()) / SESSIONS, 2),
        "reasons": dict(lost),
    }
