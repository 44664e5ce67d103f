"""Executors and the hub as they may behave: slow, forgetful, dying at the worst moment.

Drives the pure core in virtual time. What really runs is kept apart from what the scheduler
believes, so that "never two attempts at once" is checked against the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from builders import World

from gpucommons.scheduler.core.orders import (
    Act,
    RestartServer,
    SignalAttempt,
    SpareAttempt,
    StartAttempt,
    StartServer,
    StopServer,
)
from gpucommons.scheduler.core.state import (
    AttemptEnded,
    AttemptStarted,
    Cancel,
    CheckpointReported,
    Observation,
    Submit,
)
from gpucommons.scheduler.core.types import (
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
    told_started: bool = False
    signalled: bool = False
    kill_at: int = 0
    exit_code: int | None = None
    #: Ignores SIGTERM until it is killed.
    stubborn: bool = False


@dataclass
class Machines:
    """All executors together, and the hub."""

    world: World
    processes: dict[AttemptId, Process] = field(default_factory=dict)
    #: Attempts that start only when told to: a slow start.
    slow: bool = False
    #: Leases whose users dropped their GPU, whose servers were stopped, and which came back.
    dropped: set[WorkloadId] = field(default_factory=set)
    down: dict[WorkloadId, int] = field(default_factory=dict)
    back: set[WorkloadId] = field(default_factory=set)

    def act(self, acts: Sequence[Act]) -> None:
        """Do what is due; idempotent by attempt id."""
        for act in acts:
            match act:
                case StartAttempt():
                    owner = self._owner(act.attempt_id)
                    assert owner is not None
                    if act.attempt_id not in self.processes:
                        self.processes[act.attempt_id] = Process(act.attempt_id, owner.workload_id)
                case SignalAttempt():
                    self._signal(act.attempt_id)
                case SpareAttempt():
                    process = self.processes.get(act.attempt_id)
                    assert process is None or not process.signalled
                case RestartServer():
                    assert act.workload_id in self.dropped
                    assert act.workload_id in self.down, "it is restarted before it is stopped"
                    self.back.add(act.workload_id)
                case StartServer() | StopServer():
                    pass
                case _:
                    pass

    def _owner(self, attempt_id: AttemptId) -> Workload | None:
        for workload in self.world.cluster.workloads.values():
            current = workload.current
            if current is not None and current.attempt_id == attempt_id:
                return workload
        return None

    def _signal(self, attempt_id: AttemptId) -> None:
        owner = self._owner(attempt_id)
        assert owner is not None
        assert owner.current is not None
        stop = owner.current.stop
        assert stop is not None
        assert stop.signalled
        process = self.processes.get(attempt_id)
        if process is None:
            # Stopped before it was started: it never runs.
            process = Process(attempt_id, owner.workload_id, alive=False, exit_code=-15)
            self.processes[attempt_id] = process
        if not process.signalled:
            process.signalled = True
            process.kill_at = stop.kill_ms

    def tick(self) -> None:
        """Let time do its work on the processes."""
        for process in self.processes.values():
            if not process.alive or not process.signalled:
                continue
            if not process.stubborn or self.world.now >= process.kill_at:
                process.alive, process.exit_code = False, -9 if process.stubborn else 143

    def reports(self) -> list[Observation]:
        """All that was seen and is not yet committed; repeated until it is."""
        found: list[Observation] = []
        for attempt_id in sorted(self.processes):
            process = self.processes[attempt_id]
            owner = self._owner(attempt_id)
            if owner is None:
                continue
            if process.alive and not self.slow and not process.signalled:
                process.told_started = True
                found.append(AttemptStarted(attempt_id=attempt_id))
            if not process.alive:
                found.append(AttemptEnded(attempt_id=attempt_id, exit_code=process.exit_code))
        return found

    def finish(self, workload: Workload, exit_code: int) -> None:
        """A job's processes end by themselves."""
        if workload.current is not None:
            process = self.processes.get(workload.current.attempt_id)
            if process is not None and process.alive:
                process.alive, process.exit_code = False, exit_code

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
