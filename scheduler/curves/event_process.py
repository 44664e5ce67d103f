"""Starts the reader of TensorBoard's files where there is one to read, and not before.

Most jobs write no such file, and a Python beside each of them would take as much memory as a small
job. So whoever supervises an attempt lets a copy of itself look, as the job's user, since only they may
open a path below a folder of theirs: it becomes the reader where it finds a file, else it ends.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpucommons.scheduler.curves import event_watch
from gpucommons.scheduler.curves.event_watch import event_files, leave_token

#: Between two looks.
LOOK_S = 2.0
_TOKEN = "KUBEFLOW_TRAINER_SERVER_TOKEN"  # noqa: S105 - the name of a variable


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What is read, by whom."""

    work: str
    #: Address and token to report to; without them nothing is read.
    env: Mapping[str, str]
    #: uid, gid and groups of the job's user; None = those of this process.
    account: tuple[int, int, tuple[int, ...]] | None
    #: What was written before is of an earlier attempt.
    since_s: float


@dataclass(kw_only=True)
class EventProcess:
    """One reader at a time."""

    reading: Reading
    _pid: int | None = field(default=None, init=False)
    _next_s: float = field(default=0.0, init=False)

    def look(self, now_s: float, *, is_last: bool = False) -> None:
        """Have somebody look, unless that was a moment ago or there is a reader already."""
        if (now_s < self._next_s and not is_last) or self._is_alive():
            return
        is_first, self._next_s = self._next_s == 0, now_s + LOOK_S
        # A reader that is told to leave before it began looks once all the same.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            self._pid = os.fork()
            if self._pid == 0:
                self._become_reader(is_first=is_first)
        except OSError:
            # A job without this curve is better than none.
            self._pid = None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _is_alive(self) -> bool:
        if self._pid is None:
            return False
        try:
            return os.waitpid(self._pid, os.WNOHANG) == (0, 0)
        except ChildProcessError:
            return False

    def _become_reader(self, *, is_first: bool) -> None:
        """In the copy: look, and never come back."""
        reading = self.reading
        try:
            parent = os.getppid()
            self._lose_rights()
            if is_first:
                leave_token(reading.env.get(_TOKEN, ""), reading.env.get("GPUCOMMONS_TOKEN", ""))
            if event_files(reading.work):
                told = {
                    **reading.env,
                    event_watch.PARENT: str(parent),
                    event_watch.SINCE: str(reading.since_s),
                    "GPUCOMMONS_WORK_DIR": reading.work,
                }
                command = [sys.executable, "-I", event_watch.__file__]
                os.execve(sys.executable, command, told)  # noqa: S606 - our own program, no shell
        finally:
            os._exit(0)

    def _lose_rights(self) -> None:
        """Become the job's user, with none of this process' open files in hand."""
        os.umask(0o077)
        os.chdir("/")
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        os.closerange(3, 1 << 16)
        if self.reading.account is not None:
            uid, gid, groups = self.reading.account
            os.setgroups(groups)
            os.setgid(gid)
            os.setuid(uid)
