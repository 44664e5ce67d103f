"""Which source is shown, and what becomes of steps that were done again."""

from __future__ import annotations

import pytest
from stored_rows import NOW

from gpucommons.scheduler.curves.shown_curve import best_source, in_order, without_repeats
from gpucommons.scheduler.store.base import LogPoint


@pytest.mark.parametrize(
    ("counts", "best"),
    [
        ({}, "report"),
        ({"log": 500, "report": 1}, "report"),
        ({"log": 40, "tensorboard": 20}, "tensorboard"),
        ({"log": 40, "trainer": 2}, "log"),
        ({"log": 3}, "log"),
        ({"from-a-later-release": 3}, "from-a-later-release"),
    ],
)
def test_the_scripts_own_word_wins_and_then_the_most_trusted_that_is_fine_enough(
    counts: dict[str, int], best: str
) -> None:
    assert best_source(counts) == best


def test_sources_are_named_in_the_order_of_trust() -> None:
    assert in_order({"log": 1, "tensorboard": 0, "report": 2}) == ["report", "log"]


def _points(attempt: int, *steps: int) -> list[LogPoint]:
    return [LogPoint(attempt_number=attempt, step=step, at_ms=NOW) for step in steps]


def test_what_a_later_attempt_told_again_stands_once_and_the_rest_stays() -> None:
    points = _points(1, 10, 20, 30, 40) + _points(2, 25, 35)
    left = [(point.attempt_number, point.step) for point in without_repeats(points)]
    assert left == [(1, 10), (1, 20), (1, 40), (2, 25), (2, 35)]
