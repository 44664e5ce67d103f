"""A job that is stopped is said to stop for others only where others are there."""

from __future__ import annotations

import pytest

from gpucommons.scheduler.core.model.eviction_cause import StopCause
from gpucommons.scheduler.core.model.state_words import job_words


@pytest.mark.parametrize(
    ("why", "words"),
    [
        ("reclaim", "stopping for others"),
        ("preempt", "stopping for others"),
        (StopCause.SHRINK_FOR_OTHERS, "stopping for others"),
        (StopCause.MOVE, "stopping, to go on elsewhere"),
        (StopCause.OWN_SIZE, "stopping, to go on with another number of workers"),
        (StopCause.DRILL, "stopping for a test"),
        (StopCause.SPOT, "stopping, its node is taken back"),
        (StopCause.CONFINE, "stopping"),
        ("timeout", "stopping"),
        (None, "stopping"),
    ],
)
def test_the_word_for_a_stop_names_its_cause(why: str | None, words: str) -> None:
    assert job_words("preempting", why) == words


def test_whatever_is_not_stopped_has_its_own_word() -> None:
    assert job_words("running", StopCause.DRILL) == "running"
