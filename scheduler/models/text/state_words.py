"""The state of a job, a notebook or a node in words, for who knows the models and not the core."""

from __future__ import annotations

from gpucommons.scheduler.core.model.state_words import (
    ATTEMPT_WORDS,
    HELD_WORDS,
    JOB_WORDS,
    LEASE_WORDS,
    attempt_words,
    ended_words,
    held_words,
    hold_class_words,
    job_words,
    node_words,
    state_words,
)

__all__ = [
    "ATTEMPT_WORDS",
    "HELD_WORDS",
    "JOB_WORDS",
    "LEASE_WORDS",
    "attempt_words",
    "ended_words",
    "held_words",
    "hold_class_words",
    "job_words",
    "node_words",
    "state_words",
]
