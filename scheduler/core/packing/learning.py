"""Which shapes of work come here, learned from each arrival as it arrives.

Packing needs to know what free GPUs should stay good for. Nothing is read ahead and nothing is
configured: an ask is counted when it is seen, and old ones fade. Scores rest on what was *known*
at the last lesson, which changes only now and then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from gpucommons.scheduler.core.packing.asks import Ask

#: Shapes and how often each came.
Known = tuple[tuple[Ask, int], ...]

#: Before anything was seen: shares and groups of every usual size, equally likely.
NEUTRAL: Known = tuple((Ask.of(milli, 0, 0), 1) for milli in (250, 500, 1000, 2000, 4000, 8000))

#: Rare shapes beyond this part of all arrivals are noise to the typical ones (the FGD paper's cut).
TYPICAL_PERCENT = 95

#: Arrivals after which all counts are halved, so that last year's work fades.
MEMORY = 1 << 14

#: The first arrivals after which what was learned replaces the neutral default.
FIRST_LESSON = 16

#: A lesson is drawn when arrivals have grown by one part in so many: seldom, since all scores are
#: then computed anew, yet early where little is known.
LESSON_PART = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedDemand:
    """Counts of the shapes seen so far; a value, never changed."""

    counts: Mapping[Ask, int] = field(default_factory=lambda: MappingProxyType({}))
    total: int = 0
    #: All shapes with their counts as of the last lesson: what scores rest on.
    known: Known = NEUTRAL
    #: The total at which the next lesson is drawn.
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
                counts=counts, total=total, known=self.known, next_lesson=next_lesson
            )
        return LearnedDemand(
            counts=counts,
            total=total,
            known=tuple(sorted(counts.items())),
            next_lesson=total + max(1, total // LESSON_PART),
        )


def typical_of(known: Known) -> Known:
    """Return the most frequent shapes that together make up nearly all arrivals."""
    enough = sum(count for _, count in known) * TYPICAL_PERCENT
    chosen: list[tuple[Ask, int]] = []
    seen = 0
    for ask, count in sorted(known, key=lambda item: (-item[1], item[0])):
        if seen * 100 >= enough:
            break
        chosen.append((ask, count))
        seen += count
    return tuple(chosen)


def learned(asks: Iterable[Ask]) -> LearnedDemand:
    """Return what a history of arrivals teaches."""
    return LearnedDemand().after(*asks)
