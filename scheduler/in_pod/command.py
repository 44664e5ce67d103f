"""What stands above a job's command in its pod: it hands signals on and says what the end means.

Also reaps what the command leaves behind, writes the notice of an announced stop, and uploads the
results before it leaves. Like :mod:`.worker` it runs in any image that has Python.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpucommons.scheduler.curves import event_watch
from gpucommons.scheduler.in_pod import starting
from gpucommons.scheduler.in_pod.kept_files import keep
from gpucommons.scheduler.in_pod.told_files import FINISHED_FILE, TOLD_FILE
from gpucommons.scheduler.in_pod.tree import Tree, tree_of
from gpucommons.scheduler.in_pod.worker import (
    ANSWER_S,
    NOT_BEGUN,
    NOT_EXECUTABLE,
    NOT_FOUND,
    NOT_KEPT,
    ORDERS_WAIT_S,
    STOPPED,
    Api,
    Refused,
    Unreachable,
    say,
    tell_kubelet,
)

#: The grace of a pod may end soon.
_LAST_LOOK_S = 3.0

# --- the announced stop ------------------------------------------------------------------------


def watch_orders(
    api: Api,
    notice: Path,
    over: threading.Event,
    hear: Callable[[Mapping[str, Any] | None], None] = lambda _stop: None,
) -> None:
    """Keep the notice file as the scheduler says, until the attempt is over."""
    while not over.is_set():
        announced = "true" if notice.exists() else "false"
        path = f"/v1/attempt/orders?announced={announced}&wait_s={ORDERS_WAIT_S}"
        try:
            stop = api.once("GET", path)["stop"]
            note(notice, stop)
            hear(stop)
        except Refused as error:
            if error.code == "StaleAttempt":
                return
            over.wait(ORDERS_WAIT_S)
        except Unreachable:
            over.wait(5.0)
        except Exception as error:  # noqa: BLE001 - without this thread no stop is announced
            say(f"orders cannot be followed: {error!r}; trying again")
            over.wait(5.0)
        else:
            # One that was announced is answered at once while a stop goes on.
            over.wait(1.0)


def note(notice: Path, stop: Mapping[str, Any] | None) -> None:
    """Write the notice whole, or take it back."""
    if stop is None:
        notice.unlink(missing_ok=True)
        return
    aside = notice.with_name(".notice.partial")
    aside.write_text(json.dumps(stop))
    aside.replace(notice)


# --- running -----------------------------------------------------------------------------------


class Running:
    """The command, and the signals meant for it."""

    def __init__(self, cwd: Path, tree: Tree | None = None) -> None:
        self._cwd, self._tree = cwd, tree
        self._stopping = False
        #: A signal of a stop reached it before it was over.
        self.told = False
        self._process: subprocess.Popen[bytes] | None = None
        self._output = _Output() if tree is not None else None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._hand_on)

    def begin(self, command: Sequence[str]) -> None:
        """Start it, or another one in place of what has ended.

        Raises
        ------
        OSError
            When there is no such command.
        """
        out = None if self._output is None else self._output.writer
        # A session of its own: everything that the command starts hears the signal, too.
        self._process = subprocess.Popen(
            command, cwd=self._cwd, start_new_session=True, stdout=out, stderr=out
        )
        if self._stopping:
            self.send(signal.SIGTERM)

    def _hand_on(self, number: int, _frame: object) -> None:
        is_first, self._stopping = not self._stopping, True
        if self._tree is None or self._process is None:
            self.send(number)
        elif is_first:
            ending = threading.Thread(target=self._end_tree, args=(self._tree, time.monotonic()))
            ending.daemon = True
            ending.start()

    def _end_tree(self, tree: Tree, told_s: float) -> None:
        root = Path(os.environ["GPUCOMMONS_ATTEMPT_DIR"])
        # One that knows already that it has to leave, or is done, goes by itself.
        leaves = any((root / name).exists() for name in (TOLD_FILE, FINISHED_FILE))
        if not tree.stop(self, told_s, may_save=not leaves):
            self.send(signal.SIGTERM)

    def number(self) -> int:
        """Of its process; 0 before it has one."""
        return 0 if self._process is None else self._process.pid

    def is_stopping(self) -> bool:
        """The pod was told to end."""
        return self._stopping

    def has_ended(self) -> bool:
        """Whether it is over; its exit code is still to be had."""
        process = self._process
        if process is None or process.returncode is not None:
            return True
        try:
            flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, process.pid, flags) is not None
        except ChildProcessError:
            return True

    def send(self, number: int) -> None:
        """Signal the command and all that it started, unless it is over."""
        process = self._process
        if process is None or self.has_ended():
            return
        self.told = True
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)

    def end(self) -> None:
        """End it at once."""
        if self._process is not None and not self.has_ended():
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self) -> int:
        """The exit code; orphans of the command, which are ours as process 1, are collected."""
        code = STOPPED if self._process is None else self._wait(self._process)
        if self._output is not None:
            self._output.close()
        return code

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        while True:
            try:
                pid, status = os.wait()
            except ChildProcessError:
                return process.wait()
            if pid == process.pid:
                # ``os.waitstatus_to_exitcode`` is not in Python 3.8.
                ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
                process.returncode = -ended_by or os.WEXITSTATUS(status)
                return 128 + ended_by if ended_by else os.WEXITSTATUS(status)


class _Output:
    """A pipe of our own for what is woken again with its end of it, copied to where ours goes."""

    def __init__(self) -> None:
        reader, self.writer = os.pipe()
        self._copying = threading.Thread(target=self._copy, args=(reader,), daemon=True)
        self._copying.start()

    @staticmethod
    def _copy(reader: int) -> None:
        while True:
            chunk = os.read(reader, 1 << 16)
            if not chunk:
                return
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()

    def close(self) -> None:
        """All that was printed is copied by then, unless something holds the pipe that does not end."""
        os.close(self.writer)
        self._copying.join(_LAST_LOOK_S)


class Announced:
    """Hands the signal of an announcement on, once for each: orders are asked for again and again."""

    def __init__(self) -> None:
        self._running: Running | None = None
        self._last: Mapping[str, Any] | None = None
        self._sent_ms: int | None = None

    def begin(self, running: Running) -> None:
        """The command runs from now on."""
        self._running = running
        self.hear(self._last)

    def hear(self, stop: Mapping[str, Any] | None) -> None:
        """What the scheduler says now."""
        self._last = stop
        if stop is None or self._running is None or self._sent_ms == stop.get("announced_ms"):
            return
        if stop.get("notice_signal") == "SIGUSR1":
            self._sent_ms = stop.get("announced_ms")
            self._running.send(signal.SIGUSR1)


def exit_status(code: int, *, told: bool, finished: bool, after_signal: str) -> int:
    """What the pod ends with: whoever was told to leave and says nothing of being done was stopped.

    The same rule as the scheduler's own, for one who sees the pod's status alone.
    """
    if not told:
        return code
    return 0 if finished or (code == 0 and after_signal == "success") else STOPPED


def main() -> int:
    """Run a command and keep what it leaves."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--working-dir", default=".")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    socket.setdefaulttimeout(ANSWER_S)
    environ = os.environ
    api = Api(environ["GPUCOMMONS_URL"], environ["GPUCOMMONS_TOKEN"])
    over, announced = threading.Event(), Announced()
    _beside(watch_orders, api, Path(environ["GPUCOMMONS_NOTICE_FILE"]), over, announced.hear)
    reading = _beside(_read_events, environ, over)
    root = Path(environ["GPUCOMMONS_ATTEMPT_DIR"])
    folder = Path(environ["GPUCOMMONS_WORK_DIR"], arguments.working_dir)
    command = starting.read(environ, arguments.command)
    tree = tree_of(environ, api, root)
    running = Running(folder, tree)
    try:
        if tree is None:
            running.begin(command)
        else:
            tree.start(command, running)
    except OSError as error:
        return _never_ran(error, command[0])
    announced.begin(running)
    code = _status(running, root, environ.get("GPUCOMMONS_EXIT_AFTER_SIGNAL", "preempted"))
    kept = "" if tree is None else tree.left(code, told=running.is_stopping())
    if tree is not None and kept:
        # First: the grace of the pod may end while its files are looked through.
        tell_kubelet(kept)
        code = STOPPED if tree.is_kept else code
    try:
        keep(api, root, environ)
    except (Refused, Unreachable, OSError, ValueError) as error:
        say(f"the files of the job could not be kept: {error}")
        # Success is posted by leaving with 0.
        code = code or NOT_KEPT
    over.set()
    reading.join(_LAST_LOOK_S)
    return code


def _beside(target: Callable[..., None], *given: object) -> threading.Thread:
    """Runs until the pod ends, whatever the command does."""
    thread = threading.Thread(target=target, args=given, daemon=True)
    thread.start()
    return thread


def _never_ran(error: OSError, command: str) -> int:
    """Say why a command was not begun; the exit status for it."""
    missing = isinstance(error, FileNotFoundError)
    reason = (
        f"there is no {error.filename!r} in this environment"
        if missing
        else f"{command!r} cannot be run: {error.strerror}"
    )
    say(reason)
    tell_kubelet(NOT_BEGUN + reason)
    return NOT_FOUND if missing else NOT_EXECUTABLE


def _read_events(environ: Mapping[str, str], over: threading.Event) -> None:
    """What the first worker's command writes for TensorBoard becomes the job's curve."""
    if environ.get("GPUCOMMONS_RANK", "0") == "0":
        event_watch.watch(environ, over.wait)


def _status(running: Running, root: Path, after_signal: str) -> int:
    code = running.wait()
    told = running.told or (root / TOLD_FILE).exists()
    finished = (root / FINISHED_FILE).exists()
    status = exit_status(code, told=told, finished=finished, after_signal=after_signal)
    if status != code:
        say(f"the command left with exit status {code} after it was told to stop")
    return status
