"""What an exit means: its status alone does not tell a job that is done from one that obeyed.

A script that saves at a signal and leaves with 0 has not finished. So after a signal, or after it was
told by ``should_stop`` to leave, only ``finished``, posted, counts; before that, its exit status does.
Who posted it and was then killed, or was not seen to end, has done its work all the same; an error
of its own after it is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

#: Of a spec: what an exit with status 0 after a signal means.
SUCCESS, PREEMPTED = "success", "preempted"
#: What leaves because it was told to: SIGTERM itself, and the status of a shell for it.
_LEFT = frozenset({-15, 143})
#: A shell tells in these which signal ended its command: 1 to 64. ``sys.exit(-1)`` is 255 and none of them.
_SHELL_SIGNALS = range(129, 193)


class Meaning(StrEnum):
    """What became of the work of an attempt that ran."""

    #: It is done.
    SUCCEEDED = "succeeded"
    #: It left because it was told to; there is more to do.
    STOPPED = "stopped"
    #: It ended by an error of its own.
    FAILED = "failed"
    #: Nobody saw how it ended.
    LOST = "lost"


@dataclass(frozen=True, kw_only=True, slots=True)
class Exit:
    """What is known of an end."""

    #: 0…255, or -signal; None where it was not seen.
    exit_code: int | None
    #: A stop of it was announced, also one that was taken back.
    announced: bool
    #: A signal, or a true answer of ``should_stop``, reached a worker before it ended.
    told: bool
    #: ``finished`` was posted.
    finished: bool
    #: Of its spec.
    after_signal: str = PREEMPTED


def meaning(end: Exit) -> Meaning:
    """What an end means for the job."""
    code = end.exit_code
    if end.finished and _is_ended_by_others(code):
        return Meaning.SUCCEEDED
    if code is None:
        return Meaning.LOST
    told = end.told or (end.announced and code in _LEFT)
    if not told:
        return Meaning.FAILED if code else Meaning.SUCCEEDED
    # What is done stays done, also where the very signal ended what was left of it.
    done = end.finished or (code == 0 and end.after_signal == SUCCESS)
    return Meaning.SUCCEEDED if done else Meaning.STOPPED


def _is_ended_by_others(code: int | None) -> bool:
    """By a signal, or with those who watch over it."""
    return code is None or code < 0 or code in _SHELL_SIGNALS
