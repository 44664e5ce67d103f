"""Processes below a worker's first one: the user's command, and servers that a stop must not reach first."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from gpucommons.scheduler.in_worker.worker_messages import NotJoined

#: What leaves because it was told to: a shell's status for SIGTERM.
STOPPED = 143


class Stop:
    """Whether this worker was told to stop. The command hears the signal itself: it is of the same group."""

    def __init__(self) -> None:
        self._heard = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._hear)
        # For the command alone; it inherits no handler.
        signal.signal(signal.SIGUSR1, lambda _number, _frame: None)

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        self._heard.set()

    def __bool__(self) -> bool:
        return self._heard.is_set()


def start(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, apart: bool = False
) -> subprocess.Popen[bytes]:
    """Start a command. ``apart``: in a session of its own, so that a stop reaches it last.

    Raises
    ------
    NotJoined
        When it is not there.
    """
    try:
        return subprocess.Popen(
            list(command), env={**os.environ, **(env or {})}, start_new_session=apart
        )
    except OSError as error:
        message = f"{command[0]} cannot be started: {error.strerror}"
        raise NotJoined(message) from None


def status(code: int) -> int:
    """An exit status as a shell gives it."""
    return 128 - code if code < 0 else code


def end(process: subprocess.Popen[bytes], *, leave_s: float = 10.0) -> None:
    """End a command that was started apart, with all of its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(leave_s)
    for pid in _of_session(process.pid):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def _of_session(session: int) -> Iterator[int]:
    """Processes whose session this is; elsewhere than on Linux its leader alone."""
    found = [int(one.name) for one in Path("/proc").glob("[0-9]*")]
    for pid in found or [session]:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) == session:
                yield pid
