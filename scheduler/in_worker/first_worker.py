"""A first worker whose end is the end of all, and workers that serve it until then.

A server is started apart: a stop reaches the script first, which still needs its servers to save.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpucommons.scheduler.in_worker import child_processes
from gpucommons.scheduler.in_worker.child_processes import STOPPED, Stop
from gpucommons.scheduler.in_worker.port_owners import ours_answers
from gpucommons.scheduler.in_worker.worker_messages import (
    PATIENCE_S,
    Line,
    NotJoined,
    call,
    listen,
    place_of,
    remark,
)

_LOOK_S = 0.1
#: A worker that lost the first says so after the first itself was seen to end.
_LOST_S = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Seat:
    """Which worker this is, of how many, and where the first one answers."""

    rank: int
    size: int
    first: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """What serves the script."""

    command: Sequence[str]
    #: It is ready once it answers at all of these; without any at once.
    answers_at: Sequence[tuple[str, int]] = ()
    #: What it is told to reach, which answers by then: it would tell its secrets to whoever is there.
    relies_on: Sequence[tuple[str, int]] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    #: How long it may take to leave: what it holds ends with the attempt.
    leave_s: float = 2.0


class Serving:
    """A server that runs.

    Raises
    ------
    NotJoined
        When it cannot be started, or another account has what it relies on.
    """

    def __init__(self, server: Server) -> None:
        for place in server.relies_on:
            ours_answers(place)
        self._server = server
        self.process = child_processes.start(server.command, env=server.env, apart=True)

    def wait_until_ready(self, stop: Stop) -> None:
        """Until it answers, or a stop.

        Raises
        ------
        NotJoined
            When it ends before, does not answer, or another account does.
        """
        waits_for = list(self._server.answers_at)
        until_s, name = time.monotonic() + PATIENCE_S, self._server.command[0].rpartition("/")[2]
        while waits_for and not stop:
            if (code := self.process.poll()) is not None:
                message = f"{name} ended with {child_processes.status(code)} before it was ready"
                raise NotJoined(message)
            if ours_answers(waits_for[0]):
                waits_for.pop(0)
                continue
            if time.monotonic() > until_s:
                message = f"{name} was not ready within {PATIENCE_S:.0f} s"
                raise NotJoined(message)
            time.sleep(_LOOK_S)

    def end(self) -> None:
        """End it with all that it started."""
        child_processes.end(self.process, leave_s=self._server.leave_s)


class First:
    """The first worker's side."""

    def __init__(self, seat: Seat, stop: Stop) -> None:
        self._seat, self._stop = seat, stop
        self._lines: dict[int, Line] = {}
        self._ready: set[int] = set()
        self._wrong = ""
        self._open = threading.Event()
        listen(place_of(seat.first), self._welcome)

    def _welcome(self, line: Line) -> None:
        said = line.hear() or {}
        rank, size = said.get("rank"), said.get("size")
        if size != self._seat.size or not isinstance(rank, int) or not 0 < rank < self._seat.size:
            self._wrong = (
                f"worker {rank} counts {size} workers and the first one {self._seat.size}:"
                " all must be of the same attempt"
            )
            return
        self._lines[rank] = line
        self._open.wait()
        line.say({"begin": True})
        if "ready" in (line.hear() or {}):
            self._ready.add(rank)

    def wait_for_all(self, patience_s: float = PATIENCE_S) -> None:
        """Let the others begin, and wait until every one is ready, or for a stop.

        Raises
        ------
        NotJoined
            With who did not come.
        """
        self._open.set()
        until_s = time.monotonic() + patience_s
        while len(self._ready) < self._seat.size - 1 and not self._stop:
            if self._wrong:
                raise NotJoined(self._wrong)
            if time.monotonic() > until_s:
                absent = min(set(range(1, self._seat.size)) - self._ready)
                message = f"worker {absent} was not ready within {patience_s:.0f} s"
                raise NotJoined(message)
            time.sleep(_LOOK_S)

    def tell(self, code: int) -> None:
        """Say to all that it is over."""
        for line in list(self._lines.values()):
            line.say({"ended": code})


def lead(
    seat: Seat,
    command: Sequence[str],
    servers: Sequence[Server] = (),
    env: Mapping[str, str] | None = None,
    *,
    before: Sequence[str] = (),
) -> int:
    """Run the script as the first worker, beside servers of its own; returns its exit status.

    ``before`` is a command that ends once the script finds all that it needs.
    """
    stop = Stop()
    first = First(seat, stop)
    serving: list[Serving] = []
    code = STOPPED
    try:
        for server in servers:
            serving.append(Serving(server))
            serving[-1].wait_until_ready(stop)
        first.wait_for_all()
        if before and not stop:
            _run_before(before, env, stop)
        if not stop:
            code = child_processes.status(child_processes.start(command, env=env).wait())
    except NotJoined:
        code = 1
        raise
    finally:
        first.tell(code)
        # The last that came is the first to go: none shall miss what it stands on.
        for one in reversed(serving):
            one.end()
    return code


def _run_before(command: Sequence[str], env: Mapping[str, str] | None, stop: Stop) -> None:
    if child_processes.start(command, env=env).wait() and not stop:
        message = "what serves the workers did not find all of them"
        raise NotJoined(message)


def follow(seat: Seat, server: Server, *, stays_s: float = 0.0) -> int:
    """Run what serves until the first worker has ended, and so long after that."""
    stop = Stop()
    try:
        line = call(place_of(seat.first), is_stopped=stop.__bool__)
    except NotJoined:
        if stop:
            return STOPPED
        raise
    line.say({"rank": seat.rank, "size": seat.size})
    heard = Heard(line)
    while heard.waits("begin") and not stop:
        time.sleep(_LOOK_S)
    if stop or heard.is_over:
        return STOPPED if stop else 1
    serving = Serving(server)
    try:
        serving.wait_until_ready(stop)
        line.say({"ready": True})
        return _served(serving.process, heard, stop, stays_s)
    finally:
        serving.end()


class Heard:
    """What the first worker said, heard by a thread of its own."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._said: dict[str, Any] = {}
        self.is_over = False
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while (said := self._line.hear()) is not None:
            self._said |= said
            self.is_over = self.is_over or "ended" in said
        self.is_over = True

    def waits(self, word: str) -> bool:
        """Whether it neither said that nor is over."""
        return word not in self._said and not self.is_over

    @property
    def is_lost(self) -> bool:
        """It is gone without a word."""
        return self.is_over and "ended" not in self._said


def _served(serving: subprocess.Popen[bytes], heard: Heard, stop: Stop, stays_s: float) -> int:
    while not heard.is_over and serving.poll() is None:
        time.sleep(_LOOK_S)
    if not heard.is_over:
        code = child_processes.status(serving.returncode or 0)
        if stays_s or stop:
            return code
        remark(f"this worker ended with {code} while the first worker still needed it")
        return code or 1
    if heard.is_lost:
        if not stop:
            time.sleep(_LOST_S)
            remark("the first worker is gone")
        return STOPPED if stop else 1
    if stays_s:
        _wait(serving, stays_s)
    return 0


def _wait(serving: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        serving.wait(seconds)
    except subprocess.TimeoutExpired:
        remark(f"it went on for {seconds:.0f} s after the first worker had ended, and is ended")
