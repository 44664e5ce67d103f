"""Several jobs of one person at once: the best plan of each alone may be the worse for all.

Each job is a table from GPUs to seconds. Jobs start in their order as soon as their GPUs are free;
what is least is the mean time until they are done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

#: So many combinations are all tried; of more the best is looked for.
_TRY_ALL = 1_000
#: So often at most is each job's size looked at again: each time the mean has fallen.
_ROUNDS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Dealt:
    """GPUs for each job."""

    sizes: tuple[int, ...]
    #: No other sizes are better; else it is the best that was found.
    is_best: bool


def together(
    jobs: Sequence[Mapping[int, float]],
    asked: Sequence[int],
    gpus: int,
    *,
    try_all: int = _TRY_ALL,
) -> Dealt:
    """Sizes with which the mean is least, or the least that was found; never worse than ``asked``.

    Beyond ``try_all`` combinations one job's size is changed after the other as long as that helps
    (coordinate descent), from the asked sizes and from about as many GPUs for each. That takes time
    with the cube of the number of jobs.
    """
    choices = [sorted(size for size in job if size <= gpus) for job in jobs]
    if prod(len(one) for one in choices) <= try_all:
        every = [tuple(asked), *product(*choices)]
        return Dealt(
            sizes=min(every, key=lambda sizes: mean_finish_s(jobs, sizes, gpus)), is_best=True
        )
    found = [_improved(jobs, start, gpus, choices) for start in _starts(asked, choices)]
    return Dealt(
        sizes=min(found, key=lambda sizes: mean_finish_s(jobs, sizes, gpus)), is_best=False
    )


def _starts(asked: Sequence[int], choices: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """As asked; and for each size that there is, the next smaller one of each job."""
    yield tuple(asked)
    for most in sorted({size for sizes in choices for size in sizes}):
        yield tuple(
            max((one for one in sizes if one <= most), default=sizes[0]) for sizes in choices
        )


def _improved(
    jobs: Sequence[Mapping[int, float]],
    start: tuple[int, ...],
    gpus: int,
    choices: Sequence[Sequence[int]],
) -> tuple[int, ...]:
    best, least = start, mean_finish_s(jobs, start, gpus)
    for _ in range(_ROUNDS):
        before = least
        for index, sizes in enumerate(choices):
            for size in sizes:
                tried = (*best[:index], size, *best[index + 1 :])
                mean = mean_finish_s(jobs, tried, gpus)
                if mean < least:
                    best, least = tried, mean
        if least == before:
            break
    return best


def mean_finish_s(jobs: Sequence[Mapping[int, float]], sizes: Sequence[int], gpus: int) -> float:
    """Mean time until jobs are done that start in their order."""
    ends: list[tuple[float, int]] = []
    now = total = 0.0
    for job, size in zip(jobs, sizes, strict=True):
        busy = sum(held for end, held in ends if end > now)
        for end, _ in sorted(ends):
            if busy + size <= gpus:
                break
            if end > now:
                now = end
                busy = sum(held for later, held in ends if later > now)
        ends.append((now + job[size], size))
        total += now + job[size]
    return total / len(jobs) if jobs else 0.0
