"""The state of a job, a notebook or a node in words, for who knows the models and not the core."""

from __future__ import annotations

from gpucommons.scheduler.core.model.state_words import (
    ATTEMPT_WORDS,
    JOB_WORDS,
    LEASE_WORDS,
    attempt_words,
    ended_words,
    node_words,
    state_words,
)

__all__ = [
    "ATTEMPT_WORDS",
    "JOB_WORDS",
    "LEASE_WORDS",
    "attempt_words",
    "ended_words",
    "node_words",
    "ordinal",
    "place_words",
    "state_words",
]


def ordinal(place: int) -> tuple[str, str]:
    """A place in line as number and ending: ``("1", "st")``."""
    if place % 100 in (11, 12, 13):
        return str(place), "th"
    return str(place), {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")


def place_words(position: int) -> str:
    """A place in line in one word: ``1st``."""
    return "".join(ordinal(position))
