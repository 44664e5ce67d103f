"""Which of a job's curves is shown, and how its attempts make one: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from gpucommons.scheduler.curves.points import Source

#: A source that has less than one in so many points of another one is too coarse to be preferred.
_COARSE = 4
_ORDER = tuple(source.value for source in Source)


class _HasPlace(Protocol):
    @property
    def attempt_number(self) -> int: ...

    @property
    def step(self) -> int: ...


P = TypeVar("P", bound=_HasPlace)


def in_order(counts: Mapping[str, int]) -> list[str]:
    """Sources with points, the most trusted first."""
    known = [source for source in _ORDER if counts.get(source)]
    return [*known, *sorted(source for source in counts if source not in _ORDER)]


def best_source(counts: Mapping[str, int]) -> str:
    """The script's own word where there is one; else the most trusted that is fine enough."""
    known = in_order(counts)
    if not known or known[0] == Source.REPORT:
        return Source.REPORT.value
    most = max(counts.values())
    return next(source for source in known if counts[source] * _COARSE >= most)


def without_repeats(points: Sequence[P]) -> list[P]:
    """One curve of all attempts: what a later attempt told again takes the place of what was told
    first, and what it has not come to yet stays. In order of attempt and step, as they came.
    """
    spans: dict[int, tuple[int, int]] = {}
    for point in points:
        first, last = spans.get(point.attempt_number, (point.step, point.step))
        spans[point.attempt_number] = (min(first, point.step), max(last, point.step))
    return [
        point
        for point in points
        if not any(
            number > point.attempt_number and first <= point.step <= last
            for number, (first, last) in spans.items()
        )
    ]
