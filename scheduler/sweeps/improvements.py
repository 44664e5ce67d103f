"""The best so far of a sweep over time: each value that beat all that were told before it.

A trial keeps its own best alone, and with that the earlier bests of one that still improves would vanish
from the past. Here they stay: no value is ever shown as the best at a time when a better one was known.

Values may come late, twice, and of several trials at once in any order: what is kept is the same. So a
scheduler that died reads the curves again, and nothing is there twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpucommons.scheduler.sweeps.sweep import Improvement, Improvements, Sweep, Trial
from gpucommons.scheduler.sweeps.trial_ranking import is_better, rank_key

#: As many as a line can show.
MOST = 500


def improved(sweep: Sweep, before: Improvements, told: Iterable[Improvement]) -> Improvements:
    """The record with what was told since; the same object where nothing of it was better."""
    added = [one for one in told if math.isfinite(one.value)]
    if not added:
        return before
    points = _never_worse(sweep, [*before.points, *added])
    if len(points) > MOST:
        points, thinned = _thinned(points), True
    else:
        thinned = before.thinned
    after = replace(before, points=tuple(points), thinned=thinned)
    return before if after == before else after


def with_bests(sweep: Sweep, before: Improvements, trials: Iterable[Trial]) -> Improvements:
    """The record with what each trial had best: all that is known of those that an earlier release ran."""
    bests = [
        Improvement(at_ms=one.best_ms, trial=one.number, value=one.best)
        for one in trials
        if one.best is not None
    ]
    if bests and not before.points:
        before = replace(before, begun_late=True)
    return improved(sweep, before, bests)


def _never_worse(sweep: Sweep, points: Iterable[Improvement]) -> list[Improvement]:
    """Those that beat all before them, in the order in which they were told."""
    kept: list[Improvement] = []
    for one in sorted(points, key=lambda one: (one.at_ms, rank_key(sweep, one.value, one.trial))):
        if is_better(sweep, one.value, kept[-1].value if kept else None):
            kept.append(one)
    return kept


def _thinned(points: Sequence[Improvement]) -> list[Improvement]:
    """As many as are kept: without those whose loss changes the line least, never the first or newest."""
    kept = list(points)
    while len(kept) > MOST:
        # Of every second one the cheaper half: no two neighbours go at once, so with each is lost what
        # was measured, and a dear one stays.
        inner = sorted(range(1, len(kept) - 1, 2), key=lambda at: _area(kept, at))
        gone = frozenset(inner[: min(len(kept) - MOST, len(inner) // 2)])
        kept = [one for at, one in enumerate(kept) if at not in gone]
    return kept


def _area(points: Sequence[Improvement], at: int) -> float:
    """Between the line with this point and the line without it."""
    return abs(points[at].value - points[at - 1].value) * (points[at + 1].at_ms - points[at].at_ms)
