"""A job that is stopped is said to stop for others only where others are there."""

from __future__ import annotations

import pytest

from gpucommons.scheduler.core.elastic.gain import GROW
from gpucommons.scheduler.core.model.eviction_cause import CONFINE, DRILL, MOVE, RESIZE, SPOT
from gpucommons.scheduler.core.model.state_words import job_words


@pytest.mark.parametrize(
    ("why", "words"),
    [
        ("reclaim", "stopping for others"),
        ("preempt", "stopping for others"),
        (RESIZE, "stopping for others"),
        (MOVE, "stopping, to go on elsewhere"),
        (GROW, "stopping, to go on with more workers"),
        (DRILL, "stopping for a test"),
        (SPOT, "stopping, its node is taken back"),
        (CONFINE, "stopping"),
        ("timeout", "stopping"),
        (None, "stopping"),
    ],
)
def test_the_word_for_a_stop_names_its_cause(why: str | None, words: str) -> None:
    assert job_words("preempting", why) == words


def test_whatever_is_not_stopped_has_its_own_word() -> None:
    assert job_words("running", DRILL) == "running"
