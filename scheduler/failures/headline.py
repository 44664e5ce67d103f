"""The sentence that stands first where a job failed."""

from __future__ import annotations

import re
import signal
from collections.abc import Collection
from dataclasses import dataclass

from gpucommons.scheduler.failures.last_error import Cause, find_cause, plain_lines
from gpucommons.scheduler.failures.own_module import run_as_module
from gpucommons.scheduler.failures.remedies import NO_GPU, Remedy, remedy_for

#: So much of a log's end is looked at.
TAIL_BYTES = 64 << 10
_NOT_FOUND, _NOT_EXECUTABLE, _SIGNALLED = 127, 126, 128
#: What a shell or env says of a command that it could not begin, which it names in one word. A program can write
#: such a line, too, so it has room for no sentence.
_WHO, _COMMAND = r"[\w./-]+:(?:(?: line)? ?\d+:)? ", r"[^\s:]+"
_OF_SHELL = re.compile(
    rf"{_WHO}(?:exec: )?(?:command not found: {_COMMAND}|{_COMMAND}: (?:(?:command )?not found"
    rf"|(?:{_COMMAND}: bad interpreter: )?(?:No such file or directory|Permission denied)"
    r"|cannot execute: required file not found|(?:cannot execute binary file: )?Exec format error))"
)
_BY_SIGNAL = {
    signal.SIGKILL: "It was killed from outside (SIGKILL)",
    signal.SIGSEGV: "It crashed: segmentation fault",
    signal.SIGILL: "It crashed: illegal instruction",
    signal.SIGBUS: "It crashed: bus error",
    signal.SIGABRT: "It crashed: abort",
    signal.SIGFPE: "It crashed: arithmetic error",
}
_AGAINST_SIGNAL = {
    signal.SIGKILL: "Most often the machine's memory was used up: ask for more memory per worker, or"
    " load less at once",
    signal.SIGSEGV: "Most often two libraries do not fit together: python -X faulthandler names the line",
    signal.SIGILL: "A library was built for another kind of processor: install it anew for this one",
    signal.SIGBUS: "Most often shared memory was full: use fewer data loader workers",
}

_NONE_REAL = (
    "This node's GPUs are simulated: a script that needs CUDA cannot run here. Let it fall back to the CPU,"
    " or run it on a node with real GPUs"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """What is known of the worker that failed first."""

    #: The end of its log.
    tail: str
    #: As from ``wait``: below 0 is minus the signal.
    exit_code: int
    rank: int = 0
    workers: int = 1
    #: Names at the top of the job's files, as far as they are known.
    files: Collection[str] = ()
    #: Name of the folder that was taken along; "" = not known.
    taken_from: str = ""
    #: The limit of its memory was hit, as the kernel or the cluster says.
    out_of_memory: bool = False
    #: No real GPU stands behind those that it was given.
    simulated: bool = False


def headline(failure: Failure) -> str:
    """``ValueError: bad batch (train.py:88)``, then what helps; without a full stop at its end."""
    number = _signal_of(failure.exit_code)
    cause = find_cause(plain_lines(failure.tail))
    if failure.out_of_memory:
        what, advice = (
            "The memory was used up",
            "Ask for more memory per worker, or load less at once",
        )
    elif number in _BY_SIGNAL and (cause is None or not cause.is_raised):
        what, advice = _BY_SIGNAL[number], _AGAINST_SIGNAL.get(number, "")
        if number is signal.SIGABRT and cause is not None:
            what = f"{what}, after: {cause.text}"
    else:
        what, advice = _what(failure, cause)
    return _sentence(failure, what, advice)


def _what(failure: Failure, cause: Cause | None) -> tuple[str, str]:
    if cause is None:
        return f"It ended with exit status {failure.exit_code}", ""
    if cause.is_remark:
        return _quoted(failure, cause), ""
    helps = _advice(failure, remedy_for(cause.text))
    may_be_of_shell = failure.exit_code in (_NOT_FOUND, _NOT_EXECUTABLE)
    if cause.is_raised or (may_be_of_shell and _OF_SHELL.fullmatch(cause.text)):
        place = f" ({cause.place})" if cause.place else ""
        files, taken_from = failure.files, failure.taken_from
        own = run_as_module(cause.text, cause.script, files=files, taken_from=taken_from)
        return cause.text + place, own or helps
    # A line that only mentions an error may be about something else, or say what is not so.
    return _quoted(failure, cause), helps


def _quoted(failure: Failure, cause: Cause) -> str:
    """As what it is: a line of the log, which any program can write."""
    return f"It ended with exit status {failure.exit_code}; its log says: {cause.text}"


def _advice(failure: Failure, remedy: Remedy | None) -> str:
    if remedy is None:
        return ""
    return _NONE_REAL if failure.simulated and remedy.kind == NO_GPU else remedy.advice


def _sentence(failure: Failure, what: str, advice: str) -> str:
    who = f"Worker {failure.rank} failed: " if failure.workers > 1 else ""
    if who and what.startswith("It "):
        what = what.replace("It ", "it ", 1)
    return f"{who}{what}" + (f". {advice}" if advice else "")


def _signal_of(exit_code: int) -> signal.Signals | None:
    number = -exit_code if exit_code < 0 else exit_code - _SIGNALLED
    try:
        return signal.Signals(number) if number > 0 else None
    except ValueError:
        return None
