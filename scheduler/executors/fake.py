"""Attempts that need no processes: scripted, in virtual time, for tests, simulation and benchmarks.

An executor that is thrown away and made anew on the same :class:`FakeWorld` is a scheduler that was
killed and restarted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.state import (
    AttemptEnded,
    AttemptSignalled,
    AttemptStarted,
    Observation,
)
from gpucommons.scheduler.core.model.types import Attempt, AttemptId, Millis
from gpucommons.scheduler.executors.base import Found, Launch, Live
from gpucommons.scheduler.executors.fake_world import KILLED, FakeWorld, Run, Script
from gpucommons.scheduler.files.log_reader import LogChunk
from gpucommons.scheduler.ids import made_ms

__all__ = ["FakeExecutor", "FakeWorld", "Script"]


class FakeExecutor:
    """See :class:`gpucommons.scheduler.executors.base.Executor`.

    ``on_call`` is told the name of each call before and after its effect (``start``, ``start!``); it
    may raise, which is a crash at that point.
    """

    def __init__(
        self,
        world: FakeWorld,
        *,
        name: str = "fake",
        on_call: Callable[[str], None] = lambda _call: None,
    ) -> None:
        self.name = name
        self._world = world
        self._on_call = on_call
        #: What this executor knows of; lost with it, as a process's memory is.
        self._known: dict[AttemptId, Attempt] = {}

    @contextmanager
    def _call(self, name: str) -> Iterator[None]:
        self._on_call(name)
        yield
        self._on_call(f"{name}!")

    def nodes(self) -> tuple[Node, ...]:
        """The world's nodes."""
        with self._call("nodes"):
            return self._world.nodes

    def start(self, launch: Launch) -> None:
        """Begin, unless it is known."""
        with self._call("start"):
            self._world.begin(launch)
            self._follow(launch.attempt)

    def announce(self, attempt: Attempt) -> None:
        """Tell of the stop; again changes nothing."""
        with self._call("announce"):
            run = self._world.runs.get(attempt.attempt_id)
            if run is not None and run.noticed_ms is None:
                now_ms = self._world.now()
                signal = "" if attempt.stop is None else attempt.stop.notice_signal
                usr1_ms = now_ms if signal else run.usr1_ms
                self._world.tell(attempt.attempt_id, noticed_ms=now_ms, usr1_ms=usr1_ms)

    def spare(self, attempt: Attempt) -> None:
        """Take the announcement back."""
        with self._call("spare"):
            self._world.tell(attempt.attempt_id, noticed_ms=None)

    def signal(self, attempt: Attempt, *, now_ms: Millis) -> None:
        """SIGTERM now, SIGKILL at its time; again only moves that time nearer."""
        with self._call("signal"):
            self._world.prevent(attempt.attempt_id)
            self._follow(attempt)
            run = self._world.runs.get(attempt.attempt_id)
            if run is None:
                return
            kill_ms = now_ms if attempt.stop is None else attempt.stop.kill_ms
            signalled_ms = now_ms if run.signalled_ms is None else run.signalled_ms
            self._world.tell(
                attempt.attempt_id, signalled_ms=signalled_ms, kill_ms=min(run.kill_ms, kill_ms)
            )

    def _follow(self, attempt: Attempt) -> None:
        if attempt.attempt_id in self._world.runs:
            self._known[attempt.attempt_id] = attempt

    def adopt(self, known: Sequence[Attempt]) -> tuple[Live, ...]:
        """Take over what runs; what nobody knows dies."""
        with self._call("adopt"):
            running = self._world.running()
            for attempt in known:
                # A restored store may not know that it has ended.
                self._world.dig_up(attempt.attempt_id)
                self._follow(attempt)
            for attempt_id in self._world.runs.keys() - self._known.keys():
                self._world.strike(attempt_id, exit_code=KILLED)
                self._world.bury(attempt_id)
            return tuple(
                Live(attempt_id=attempt_id, running=attempt_id in running)
                for attempt_id in self._known
            )

    def since(self, at_ms: Millis) -> tuple[Found, ...]:
        """See the protocol."""
        with self._call("since"):
            known = {**self._world.runs, **self._world.past}
            return tuple(self._found(*one) for one in known.items() if made_ms(one[0]) >= at_ms)

    def _found(self, attempt_id: AttemptId, run: Run) -> Found:
        job_id, name = self._world.jobs.get(attempt_id, ("", ""))
        end = run.ended_by(self._world.now())
        return Found(
            attempt_id=attempt_id,
            job_id=job_id,
            name=name,
            running=attempt_id in self._world.running(),
            succeeded=end is not None and end.exit_code == 0 and not end.told,
        )

    def observe(self) -> tuple[Observation, ...]:
        """What is true now of the attempts it knows."""
        with self._call("observe"):
            return tuple(seen for attempt_id in self._known for seen in self._seen(attempt_id))

    def _seen(self, attempt_id: AttemptId) -> Iterator[Observation]:
        run, now_ms = self._world.runs[attempt_id], self._world.now()
        end = run.ended_by(now_ms)
        until_ms = now_ms if end is None else end.at_ms
        if run.started_ms <= until_ms:
            yield AttemptStarted(attempt_id=attempt_id)
        if run.signalled_ms is not None:
            yield AttemptSignalled(attempt_id=attempt_id)
        if end is not None:
            yield AttemptEnded(
                attempt_id=attempt_id,
                exit_code=end.exit_code,
                start_failed=end.start_failed,
                killed=end.killed,
                text=end.text,
                told=end.told,
                finished=end.finished,
            )

    def forget(self, attempt_id: AttemptId) -> None:
        """Report it no more."""
        with self._call("forget"):
            self._known.pop(attempt_id, None)
            self._world.bury(attempt_id)

    def log(self, attempt: Attempt, *, rank: int, offset: int, limit_bytes: int) -> LogChunk:
        """The script's lines, for every rank."""
        if not 0 <= rank < max(1, len(attempt.placements)):
            return LogChunk(lines=(), next_offset=0, end=True)
        lines = self._world.printed(attempt.attempt_id)
        content = "".join(f"{line}\n" for line in lines).encode()
        window = content[offset : offset + limit_bytes]
        whole = window[: window.rfind(b"\n") + 1]
        next_offset = offset + len(whole)
        ended = attempt.attempt_id not in self._world.running()
        return LogChunk(
            lines=tuple(whole.decode().split("\n")[:-1]),
            next_offset=next_offset,
            end=ended and next_offset >= len(content),
        )

    def rest(self) -> None:
        """See the protocol. Nothing is done here but what is ordered."""

    def close(self) -> None:
        """Nothing is held."""
