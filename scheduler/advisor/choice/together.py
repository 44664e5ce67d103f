"""Several jobs of one person at once: the best plan of each alone may be the worse for all.

Each job is a table from GPUs to seconds. Jobs start in their order as soon as their GPUs are free;
what is least is the mean time until they are done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

#: So many combinations are tried at most; beyond them each job keeps its best few sizes.
_MOST = 20_000


def together(jobs: Sequence[Mapping[int, float]], gpus: int) -> tuple[int, ...]:
    """GPUs for each job."""
    choices = [sorted(size for size in job if size <= gpus) for job in jobs]
    if not choices or not all(choices):
        return ()
    while _combinations(choices) > _MOST:
        longest = max(range(len(choices)), key=lambda index: len(choices[index]))
        choices[longest] = choices[longest][::2]
    return min(product(*choices), key=lambda sizes: mean_finish_s(jobs, sizes, gpus))


def _combinations(choices: Sequence[Sequence[int]]) -> int:
    count = 1
    for one in choices:
        count *= len(one)
    return count


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
    return total / len(jobs)
