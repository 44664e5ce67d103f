"""Slurm's words for where a job stands, or how it ended (``man squeue``, ``man sacct``)."""

from __future__ import annotations

import argparse

from gpucommons.scheduler import models
from gpucommons.scheduler.errors import BadRequest

#: By our states.
LONG_STATES = {
    "queued": "PENDING", "nominated": "PENDING", "admitted": "CONFIGURING",
    "starting": "CONFIGURING", "running": "RUNNING", "preempting": "COMPLETING",
    "pausing": "COMPLETING", "cancelling": "COMPLETING", "paused": "SUSPENDED",
    "succeeded": "COMPLETED", "failed": "FAILED", "cancelled": "CANCELLED",
}  # fmt: skip
TIMEOUT = "TIMEOUT"
#: Of what goes on, and of what is over.
_LIVE = {
    "PENDING": "PD", "CONFIGURING": "CF", "RUNNING": "R", "COMPLETING": "CG", "SUSPENDED": "S",
}  # fmt: skip
_OVER = {"COMPLETED": "CD", "FAILED": "F", "CANCELLED": "CA", TIMEOUT: "TO"}
SHORT_STATES = {**_LIVE, **_OVER}
_LONG = {short: long for long, short in SHORT_STATES.items()}
_ALL = "ALL"


def long_state(job: models.JobView) -> str:
    """Where it stands, or how it ended."""
    last = job.attempts[-1] if job.attempts else None
    if job.state == "failed" and last and last.stop and last.stop.why == "timeout":
        return TIMEOUT
    return LONG_STATES.get(job.state, job.state.upper())


def asked_states(text: str | None) -> frozenset[str]:
    """The long words of a list, ``PD,RUNNING``; none = all.

    Raises
    ------
    BadRequest
        Where one of them is no such word.
    """
    words = [word for word in (text or "").upper().split(",") if word]
    if _ALL in words:
        return frozenset()
    found = [_LONG.get(word, word) for word in words]
    if strange := sorted({*found} - SHORT_STATES.keys()):
        known = ", ".join(f"{long} ({short})" for long, short in SHORT_STATES.items())
        raise BadRequest(f"{strange[0]} is no state of a job. There are {known}.")
    return frozenset(found)


def live_states(text: str | None) -> frozenset[str]:
    """The same for who lists only what is not over; raises for the others, too."""
    found = asked_states(text)
    if over := sorted(found - _LIVE.keys()):
        message = f"squeue lists what is not over. Jobs that are {over[0]}: gpucommons sacct -s {over[0]}."
        raise BadRequest(message)
    return found


def is_state(state: str, states: str | None) -> bool:
    """Whether it is one of those of ``--states``."""
    wanted = asked_states(states)
    return not wanted or LONG_STATES.get(state) in wanted


def take_states(arguments: argparse.Namespace) -> None:
    """``--state RUNNING`` is Slurm's; ``--state FOLDER`` names a scheduler, as with all other commands."""
    words = [word for word in (arguments.state or "").upper().split(",") if word]
    if words and {*words} <= {*SHORT_STATES, *_LONG, _ALL}:
        arguments.states, arguments.state = arguments.state, None
