"""A machine in virtual time: scripted processes that live and die as real ones do.

It outlives the executors that work on it, so a scheduler that is killed and restarted finds what
runs. Everything is computed from what was told and the time; nothing happens by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.types import AttemptId, Millis, WorkloadId
from gpucommons.scheduler.executors.base import Launch

#: Exit status of a process that SIGKILL ended.
KILLED = -9
_NEVER = Millis(2**62)


@dataclass(frozen=True, kw_only=True, slots=True)
class Script:
    """What the processes of an attempt do, by themselves and when they are told."""

    #: From the start to all workers running.
    start_ms: int = 0
    #: They never run, for this reason.
    start_fails: str | None = None
    #: From running to the end; None = until stopped.
    run_ms: int | None = None
    exit_code: int = 0
    #: From the announcement of a stop to leaving by themselves; None = they wait for the signal.
    notice_ms: int | None = None
    #: From SIGTERM to the end; None = they ignore it.
    stop_ms: int | None = 0
    stop_exit_code: int = 143
    #: From the signal of an announcement to leaving; None = they go on.
    usr1_ms: int | None = None
    #: It leaves word that it was told to stop, or that its work is done, whenever it ends.
    says_told: bool = False
    posts_finished: bool = False
    #: What every worker prints, all at the start.
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """How processes end, and when."""

    at_ms: Millis
    exit_code: int | None
    start_failed: bool = False
    killed: bool = False
    text: str = ""
    #: See :class:`~gpucommons.scheduler.core.model.state.AttemptEnded`.
    told: bool = False
    finished: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """The processes of one attempt, and what they were told."""

    script: Script
    began_ms: Millis
    noticed_ms: Millis | None = None
    #: When the announcement's own signal came.
    usr1_ms: Millis | None = None
    signalled_ms: Millis | None = None
    kill_ms: Millis = _NEVER
    #: What an outsider did to them.
    struck: End | None = None

    @property
    def started_ms(self) -> Millis:
        """When all workers run, if nothing comes between."""
        failed = self.script.start_fails is not None
        return _NEVER if failed else Millis(self.began_ms + self.script.start_ms)

    @property
    def end(self) -> End | None:
        """How it will end, as things stand."""
        first = min(self._ends(), key=lambda end: end.at_ms, default=None)
        if first is None or first.start_failed or first is self.struck:
            return first
        signals = (self.signalled_ms, self.usr1_ms)
        told = any(ms is not None and ms < first.at_ms for ms in signals)
        return replace(
            first,
            told=first.told or told or self.script.says_told,
            finished=self.script.posts_finished,
        )

    def _ends(self) -> Iterator[End]:
        script = self.script
        if self.struck is not None:
            yield self.struck
        if script.start_fails is not None:
            at_ms = Millis(self.began_ms + script.start_ms)
            yield End(at_ms=at_ms, exit_code=None, start_failed=True, text=script.start_fails)
        elif script.run_ms is not None:
            yield End(at_ms=Millis(self.started_ms + script.run_ms), exit_code=script.exit_code)
        if self.noticed_ms is not None and script.notice_ms is not None:
            yield self._left(self.noticed_ms, script.notice_ms)
        if self.usr1_ms is not None and script.usr1_ms is not None:
            yield self._left(self.usr1_ms, script.usr1_ms)
        if self.signalled_ms is not None:
            if script.stop_ms is not None:
                left_ms = Millis(self.signalled_ms + script.stop_ms)
                yield End(at_ms=left_ms, exit_code=script.stop_exit_code, told=True)
            killed_ms = Millis(max(self.kill_ms, self.signalled_ms))
            yield End(at_ms=killed_ms, exit_code=KILLED, killed=True, told=True)

    def _left(self, told_ms: Millis, after_ms: int) -> End:
        """It leaves by itself, because it was told."""
        at_ms = Millis(max(told_ms, self.started_ms) + after_ms)
        return End(at_ms=at_ms, exit_code=self.script.stop_exit_code, told=True)

    def ended_by(self, now_ms: Millis) -> End | None:
        """Its end, if that lies behind."""
        end = self.end
        return end if end is not None and end.at_ms <= now_ms else None


@dataclass(kw_only=True)
class FakeWorld:
    """Nodes and processes in virtual time."""

    now: Callable[[], Millis]
    nodes: tuple[Node, ...] = ()
    #: What an attempt will do.
    script_of: Callable[[Launch], Script] = lambda _launch: Script()
    #: Every start of processes, in order: an attempt in it twice was doubled.
    starts: list[AttemptId] = field(default_factory=list)
    #: Attempts whose end may still have to be reported.
    runs: dict[AttemptId, Run] = field(default_factory=dict)
    #: Those whose end is committed.
    past: dict[AttemptId, Run] = field(default_factory=dict)
    #: Id and name of the job of each.
    jobs: dict[AttemptId, tuple[WorkloadId, str]] = field(default_factory=dict)

    def running(self) -> frozenset[AttemptId]:
        """Attempts with live processes."""
        now_ms = self.now()
        return frozenset(i for i, run in self.runs.items() if run.ended_by(now_ms) is None)

    def strike(self, attempt_id: AttemptId, *, exit_code: int | None = None) -> None:
        """End processes from outside, as a crash of the machine does."""
        end = End(at_ms=self.now(), exit_code=exit_code, text="Its processes were lost")
        self.tell(attempt_id, struck=end)

    def begin(self, launch: Launch) -> None:
        """Start processes, once."""
        attempt_id = launch.attempt.attempt_id
        if attempt_id not in self.runs and attempt_id not in self.past:
            self.runs[attempt_id] = Run(script=self.script_of(launch), began_ms=self.now())
            self.jobs[attempt_id] = (launch.workload.workload_id, launch.workload.spec.name)
            self.starts.append(attempt_id)

    def prevent(self, attempt_id: AttemptId) -> None:
        """Make sure that an attempt that was stopped before its start will not start."""
        if attempt_id not in self.runs and attempt_id not in self.past:
            script = Script(start_fails="It was stopped before it started")
            self.runs[attempt_id] = Run(script=script, began_ms=self.now())

    def tell(self, attempt_id: AttemptId, **told: object) -> None:
        """Change what live processes know."""
        run = self.runs.get(attempt_id)
        if run is not None and run.ended_by(self.now()) is None:
            self.runs[attempt_id] = replace(run, **told)  # type: ignore[arg-type] # named fields

    def printed(self, attempt_id: AttemptId) -> tuple[str, ...]:
        """What each worker printed."""
        run = self.runs.get(attempt_id) or self.past.get(attempt_id)
        return () if run is None else run.script.lines

    def dig_up(self, attempt_id: AttemptId) -> None:
        """Its end is reported again: that it was committed is lost."""
        if attempt_id in self.past:
            self.runs[attempt_id] = self.past.pop(attempt_id)

    def bury(self, attempt_id: AttemptId) -> None:
        """Its end was committed: nothing more will be asked but whether it is over."""
        run = self.runs.get(attempt_id)
        if run is not None and run.ended_by(self.now()) is not None:
            del self.runs[attempt_id]
            self.past[attempt_id] = run
