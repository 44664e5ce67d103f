"""Whether a notebook is offered to become a job now, and what may be said of it. Pure.

What is not known never counts: a GPU that nobody measures was not busy, and a cell whose end nobody knows
is given none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

#: Mean use of the slice above which it counts as busy: training that waits for its data is below it
#: half of the time, a cell that only draws from time to time always.
BUSY_PERCENT = 50
#: What is known of the use may have holes up to here.
MOST_UNKNOWN_MS = 60_000
DAY_MS = 24 * 3600 * 1000
#: A job that is to be done sooner is so by at least this part of what is left: less is lost with
#: its start, and with what it does once more.
_SOONER = 0.25
#: Numbers of GPUs that are tried for what can use several, most first.
_SIZES = (8, 4, 2)


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """One look at the slice: how much it was used since the look before; None = nobody could tell."""

    at_ms: int
    percent: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """A cell that runs."""

    #: Of the request that runs it.
    run: str
    kernel_id: str
    #: Its notebook, below the server's folder, and as a whole path.
    path: str
    file: str
    begun_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """What was offered before: when, by kernel; and files of notebooks whose user wants no offer."""

    kernels: Mapping[str, int] = field(default_factory=dict)
    refused: frozenset[str] = frozenset()

    def leaves_open(self, cell: Cell, now_ms: int) -> bool:
        """Whether it may be offered (again)."""
        told_ms = self.kernels.get(cell.kernel_id)
        return cell.file not in self.refused and (told_ms is None or now_ms - told_ms >= DAY_MS)


def was_busy(looks: Iterable[Look], since_ms: int, now_ms: int) -> bool:
    """Whether the slice was in use all that time, as far as a mean tells."""
    known = [(one.at_ms, one.percent) for one in looks if one.percent is not None]
    known = [(at_ms, percent) for at_ms, percent in known if since_ms < at_ms <= now_ms]
    moments = [since_ms, *(at_ms for at_ms, _ in known), now_ms]
    if any(b - a > MOST_UNKNOWN_MS for a, b in pairwise(moments)):
        return False
    return bool(known) and sum(percent for _, percent in known) >= BUSY_PERCENT * len(known)


def whose(
    cells: Sequence[Cell], looks: Iterable[Look], told: Told, after_ms: int, now_ms: int
) -> Cell | None:
    """The cell that is offered to become a job; ``after_ms`` is the pool's setting, 0 = never.

    Of several that ran all the time nobody can tell which of them used the GPU.
    """
    if after_ms <= 0:
        return None
    long = [one for one in cells if now_ms - one.begun_ms >= after_ms]
    if len(long) != 1 or not told.leaves_open(long[0], now_ms):
        return None
    return long[0] if was_busy(looks, now_ms - after_ms, now_ms) else None


def sizes(held_milli_gpu: int, *, joins: bool) -> tuple[int, ...]:
    """Numbers of GPUs to ask for, in this order. Only code that ``joins`` workers can use several."""
    several = tuple(one for one in _SIZES if one * 1000 > held_milli_gpu) if joins else ()
    return (*several, max(1, held_milli_gpu // 1000))


def done_by_ms(
    cell: Cell, left_ms: int | None, gpus: int, held_milli_gpu: int, now_ms: int
) -> int | None:
    """When a job on so many GPUs would be done that is as many times as fast and begins anew now.

    None where nobody knows, or it would not be sooner by enough. A share of a GPU counts as a whole one: its
    code may have had all of it.
    """
    if left_ms is None:
        return None
    times = faster(gpus, held_milli_gpu)
    done_ms = now_ms + round((now_ms - cell.begun_ms + left_ms) / times)
    return done_ms if done_ms < now_ms + left_ms * (1 - _SOONER) else None


def faster(gpus: int, held_milli_gpu: int) -> float:
    """How many times as fast it can be expected to be at most."""
    return gpus / max(1.0, held_milli_gpu / 1000)
