"""Which shapes of work come here, learned from each arrival as it arrives.

Packing needs to know what free GPUs should stay good for. Nothing is read ahead and nothing is
configured: an ask is counted when it is seen, old ones fade, and the shapes that make up nearly
all arrivals are *typical*. What is typical changes only now and then, because every score of the
board rests on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from gpucommons.scheduler.core.packing.asks import Ask

#: Typical work before anything was seen: shares and groups of every usual size, equally likely.
NEUTRAL = tuple((Ask.of(milli, 0, 0), 1) for milli in (250, 500, 1000, 2000, 4000, 8000))

#: Rare shapes beyond this part of all arrivals are noise to the typical ones (the FGD paper's cut).
TYPICAL_PERCENT = 95

#: Arrivals after which all counts are halved, so that last year's work fades.
MEMORY = 1 << 14

#: The first arrivals after which what was learned replaces the neutral default.
FIRST_LESSON = 16

#: Typical work is looked at anew when arrivals have grown by one part in so many.
LESSON_PART = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedDemand:
    """Counts of the shapes seen so far; a value, never changed."""

    counts: Mapping[Ask, int] = field(default_factory=lambda: MappingProxyType({}))
    total: int = 0
    #: The typical shapes with their counts, as of the last lesson, most frequent first.
    typical: tuple[tuple[Ask, int], ...] = NEUTRAL
    #: The total at which typical work is looked at anew.
    next_lesson: int = FIRST_LESSON

    def after(self, *asks: Ask) -> LearnedDemand:
        """Return the demand with these arrivals counted."""
        counts = dict(self.counts)
        for ask in asks:
            counts[ask] = counts.get(ask, 0) + 1
        total = self.total + len(asks)
        next_lesson = self.next_lesson
        if total >= MEMORY:
            counts = {ask: count // 2 for ask, count in counts.items() if count > 1}
            total = sum(counts.values())
            next_lesson = total
        if total < next_lesson:
            return LearnedDemand(
                counts=counts, total=total, typical=self.typical, next_lesson=next_lesson
            )
        return LearnedDemand(
            counts=counts,
            total=total,
            typical=typical_of(counts),
            next_lesson=total + max(1, total // LESSON_PART),
        )


def typical_of(counts: Mapping[Ask, int]) -> tuple[tuple[Ask, int], ...]:
    """Return the most frequent shapes that together make up nearly all arrivals."""
    enough = sum(counts.values()) * TYPICAL_PERCENT
    chosen: list[tuple[Ask, int]] = []
    seen = 0
    for ask, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if seen * 100 >= enough:
            break
        chosen.append((ask, count))
        seen += count
    return tuple(chosen) or NEUTRAL


def learned(asks: Iterable[Ask]) -> LearnedDemand:
    """Return what a history of arrivals teaches."""
    return LearnedDemand().after(*asks)
