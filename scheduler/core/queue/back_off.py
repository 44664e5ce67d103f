"""How long one waits after a try that came to nothing until it is considered again: longer each time.

When no further try is worth it says :mod:`.giving_up`; who may stop nobody for a while, since others
were stopped for them in vain, :mod:`.reclaim_cooldown`.
"""

from __future__ import annotations

from gpucommons.scheduler.core.model.types import Millis, Workload
from gpucommons.scheduler.core.queue import giving_up

#: After the first lost or late start of a job; the second time twice as long, and so on.
_FIRST_OF_JOB_MS = 10_000
LONGEST_OF_JOB_MS = 600_000
#: After the first grant that nobody redeemed: others go first for so long.
_FIRST_OF_TICKET_MS = 30_000
#: Doubled no more often: the longest is reached by then.
_DOUBLED = 10


def of_job(workload: Workload) -> Millis:
    """After an attempt that ended badly."""
    return doubling(_FIRST_OF_JOB_MS, _bad_ends(workload), longest_ms=LONGEST_OF_JOB_MS)


def doubling(first_ms: int, tries: int, *, longest_ms: int) -> Millis:
    """After so many tries in a row that came to nothing: each time twice as long, up to the longest."""
    return Millis(min(longest_ms, first_ms << min(_DOUBLED, tries - 1)))


def of_ticket(workload: Workload) -> Millis:
    """After a grant that lapsed."""
    return Millis(_FIRST_OF_TICKET_MS << (giving_up.in_vain(workload) - 1))


def _bad_ends(workload: Workload) -> int:
    """How many attempts in a row, up to now, ended badly and not for others' sake."""
    count = 0
    for attempt in reversed(workload.attempts):
        stop = attempt.stop
        if stop is not None and stop.why not in giving_up.ITS_OWN:
            break
        count += 1
    return max(1, count)
