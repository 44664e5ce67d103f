"""Executors and the hub as they may behave: slow, forgetful, dying at the worst moment.

Drives the pure core in virtual time. What really runs is kept apart from what the scheduler
believes, so that "never two attempts at once" is checked against the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from builders import World

from gpucommons.scheduler.core.model.actions import (
    Act,
    RestartServer,
    SignalAttempt,
    SpareAttempt,
    StartAttempt,
)
from gpucommons.scheduler.core.model.intents import Cancel, Submit
from gpucommons.scheduler.core.model.state import (
    AttemptEnded,
    AttemptStarted,
    CheckpointReported,
    Observation,
)
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    AttemptState,
    Checkpoint,
    Kind,
    State,
    Workload,
    WorkloadId,
)


@dataclass
class Process:
    """The workers of one attempt, as they really are."""

    attempt_id: AttemptId
    workload_id: WorkloadId
    alive: bool = True
    #: Where its workers may still live.
    nodes: set[str] = field(default_factory=set)
    signalled: bool = False
    kill_at: int = 0
    exit_code: int | None = None
    #: Ignores SIGTERM until it is killed.
    stubborn: bool = False
    #: A signal reached it while it lived.
    told: bool = False
    #: It left word that its work is done.
    done: bool = False
    #: Its end was reported.
    heard: bool = False

    @property
    def manner(self) -> int:
        """Leaves a signal with 143, with 0, or with an error of its own: by its number."""
        return int(self.attempt_id[-6:]) % 3


@dataclass
class Machines:
    """All executors together, and the hub."""

    world: World
    processes: dict[AttemptId, Process] = field(default_factory=dict)
    #: Attempts that start only when told to: a slow start.
    slow: bool = False
    #: Nodes of which nothing is heard, and which hear nothing.
    away: set[str] = field(default_factory=set)
    #: Those of them on which, as an admin states, nothing runs any more.
    fenced: set[str] = field(default_factory=set)
    #: The scheduler dies before the call after so many more; None = it lives on.
    fuse: int | None = None
    #: Leases whose users dropped their GPU, whose servers were stopped, and which came back.
    dropped: set[WorkloadId] = field(default_factory=set)
    down: dict[WorkloadId, int] = field(default_factory=dict)
    back: set[WorkloadId] = field(default_factory=set)

    def act(self, acts: Sequence[Act]) -> bool:
        """Do what is due; idempotent by attempt id. False: the scheduler died on the way."""
        for act in acts:
            if self.fuse == 0:
                self.fuse = None
                return False
            if self.fuse is not None:
                self.fuse -= 1
            self._do(act)
        return True

    def _do(self, act: Act) -> None:
        match act:
            case StartAttempt():
                self._start(act.attempt_id)
            case SignalAttempt():
                self._signal(act.attempt_id)
            case SpareAttempt():
                process = self.processes.get(act.attempt_id)
                assert process is None or not process.signalled
            case RestartServer():
                assert act.workload_id in self.dropped
                assert act.workload_id in self.down, "it is restarted before it is stopped"
                self.back.add(act.workload_id)
            case _:
                pass

    def _owner(self, attempt_id: AttemptId) -> Workload | None:
        for workload in self.world.cluster.workloads.values():
            current = workload.current
            if current is not None and current.attempt_id == attempt_id:
                return workload
        return None

    def _start(self, attempt_id: AttemptId) -> None:
        owner = self._owner(attempt_id)
        assert owner is not None
        assert owner.current is not None
        nodes = self._nodes_of(owner.current)
        if attempt_id not in self.processes and not nodes & self.away:
            self.processes[attempt_id] = Process(attempt_id, owner.workload_id, nodes=nodes)

    def _nodes_of(self, attempt: Attempt) -> set[str]:
        return {one.node_id for one in attempt.placements} - self.fenced

    def _signal(self, attempt_id: AttemptId) -> None:
        owner = self._owner(attempt_id)
        assert owner is not None
        assert owner.current is not None
        stop = owner.current.stop
        assert stop is not None
        assert stop.signalled
        process = self.processes.get(attempt_id)
        if (self._nodes_of(owner.current) if process is None else process.nodes) & self.away:
            return
        if process is None:
            # Stopped before it was started: it never runs.
            process = Process(attempt_id, owner.workload_id, alive=False, exit_code=-15)
            self.processes[attempt_id] = process
        if not process.signalled:
            process.signalled = True
            process.kill_at = stop.kill_ms
            process.told = process.alive

    def tick(self) -> None:
        """Let time do its work on the processes."""
        for process in self.processes.values():
            if not process.alive or not process.signalled:
                continue
            if not process.stubborn or self.world.now >= process.kill_at:
                left = (143, 0, 1)[process.manner]
                process.alive, process.exit_code = False, -9 if process.stubborn else left

    def reports(self) -> list[Observation]:
        """All that was seen and is not yet committed; repeated until it is."""
        found: list[Observation] = []
        for attempt_id in sorted(self.processes):
            process = self.processes[attempt_id]
            if self._owner(attempt_id) is None or process.nodes & self.away:
                continue
            if process.alive and not self.slow and not process.signalled:
                found.append(AttemptStarted(attempt_id=attempt_id))
            if not process.alive:
                process.heard = True
                end = AttemptEnded(
                    attempt_id=attempt_id,
                    exit_code=process.exit_code,
                    told=process.told,
                    finished=process.done,
                )
                found.append(end)
        return found

    def fence(self, node: str) -> None:
        """By now nothing of anybody runs on it."""
        self.fenced.add(node)
        for process in self.processes.values():
            if process.alive and node in process.nodes:
                process.nodes.discard(node)
                process.alive = bool(process.nodes)

    def finish(self, workload: Workload, exit_code: int) -> None:
        """A job's processes end by themselves."""
        if workload.current is not None:
            process = self.processes.get(workload.current.attempt_id)
            if process is not None and process.alive:
                process.alive, process.exit_code = False, exit_code
                # Some say so; the others leave as those do who obey.
                process.done = exit_code == 0 and process.manner == 0

    def vanish(self, workload: Workload, *, done: bool) -> None:
        """Whoever watches over a job's processes is killed, and they are with it."""
        if workload.current is not None:
            process = self.processes.get(workload.current.attempt_id)
            if process is not None and process.alive:
                process.alive, process.exit_code, process.done = False, None, done

    def checkpoint(self, workload: Workload, step: int) -> Observation | None:
        """A running job saves."""
        attempt = workload.current
        if attempt is None or attempt.state is not AttemptState.RUNNING:
            return None
        saved = Checkpoint(
            attempt_id=attempt.attempt_id,
            step=step,
            path=f"checkpoints/step-{step}",
            size_bytes=1,
            sha256="0" * 64,
            at_ms=self.world.now,
        )
        return CheckpointReported(attempt_id=attempt.attempt_id, checkpoint=saved)

    def stop_server(self, workload: Workload) -> Sequence[Observation]:
        """The hub stops a notebook server: told, then seen gone."""
        if workload.spec.kind is not Kind.NOTEBOOK or workload.state == State.ENDED:
            return ()
        self.down.setdefault(workload.workload_id, self.world.now)
        self.world.ask(Cancel(workload_id=workload.workload_id, why="stopped"), "hub")
        current = self.world.get(workload.workload_id).current
        if current is None:
            return ()
        return (AttemptEnded(attempt_id=current.attempt_id, exit_code=None),)


def submit_action(workload_id: WorkloadId, workload: Workload) -> Submit:
    """Ask for the same again."""
    return Submit(workload_id=workload_id, spec=workload.spec)
