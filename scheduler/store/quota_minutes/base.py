"""The contract of stores with reports that look back: how much there was to hold, and who lent it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpucommons.scheduler.core.model.types import Millis, PoolName, TeamName
from gpucommons.scheduler.store.schedules.base import Epoch

#: Minutes are folded into quarters of an hour: the days of each time zone begin with one.
FOLDED_MS = 15 * 60_000
#: Minutes older than this are folded.
FOLDED_AFTER_MS = 2 * 24 * 3_600_000
#: The team of a row that tells of the whole pool.
WHOLE_POOL = TeamName("")


@dataclass(frozen=True, kw_only=True, slots=True)
class QuotaMinute:
    """A team's quota in a pool during one minute, or during a quarter of an hour where minutes were folded.

    Key: (minute, pool, team). With :data:`WHOLE_POOL` it tells of all GPUs of the pool. Amounts are
    in milli-GPU·milliseconds.
    """

    minute_ms: Millis
    pool: PoolName
    team: TeamName
    #: Fixed and guaranteed quota; of a pool all its GPUs, in any team's quota or in none.
    size: int
    #: What borrowers held of it: never more than was unused.
    lent: int = 0


class QuotaMinuteStore(Protocol):
    """Durable memory of quota minutes. All methods may be called from any thread."""

    def put(self, epoch: Epoch, rows: Sequence[QuotaMinute]) -> None:
        """Add or replace rows by key (the leader).

        Raises
        ------
        LeaderLost
            When another leads.
        """
        ...

    def sums(self, *, from_ms: Millis, to_ms: Millis, step_ms: int) -> tuple[QuotaMinute, ...]:
        """Rows of a span, added up by pool, team and steps of so many milliseconds; by time, pool, team.

        ``minute_ms`` of an answer is the first that there is a row of in its step.
        """
        ...

    def fold(self, epoch: Epoch, *, before_ms: Millis) -> int:
        """Add minutes of quarters of an hour that were over by then up to one row each.

        Returns how many rows went.

        Raises
        ------
        LeaderLost
            When another leads.
        """
        ...

    def drop(self, epoch: Epoch, *, before_ms: Millis) -> int:
        """Forget what is older; returns how many went.

        Raises
        ------
        LeaderLost
            When another leads.
        """
        ...


def in_whole_rows(*, from_ms: int, to_ms: int, now_ms: int) -> tuple[int, int]:
    """The span, widened where it would cut through minutes that are folded by now."""
    folded_ms = now_ms - FOLDED_AFTER_MS
    if from_ms < folded_ms:
        from_ms -= from_ms % FOLDED_MS
    if to_ms < folded_ms:
        to_ms += -to_ms % FOLDED_MS
    return from_ms, to_ms


def added_up(rows: Iterable[QuotaMinute], step_ms: int) -> tuple[QuotaMinute, ...]:
    """Rows added up by pool, team and step, as :meth:`QuotaMinuteStore.sums` gives them."""
    found: dict[tuple[int, PoolName, TeamName], list[QuotaMinute]] = defaultdict(list)
    for row in rows:
        found[row.minute_ms // step_ms, row.pool, row.team].append(row)
    return tuple(
        QuotaMinute(
            minute_ms=min(row.minute_ms for row in several),
            pool=several[0].pool,
            team=several[0].team,
            size=sum(row.size for row in several),
            lent=sum(row.lent for row in several),
        )
        for _, several in sorted(found.items())
    )
