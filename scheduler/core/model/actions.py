"""What a cycle asks to be done: repeated until its effect is reported back, so each is idempotent."""

from __future__ import annotations

from dataclasses import dataclass

from gpucommons.scheduler.core.model.evolving import quick
from gpucommons.scheduler.core.model.types import AttemptId, WorkloadId


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class StartAttempt:
    """Act: start this attempt's workers. Idempotent by attempt id."""

    attempt_id: AttemptId


@dataclass(frozen=True, kw_only=True, slots=True)
class AnnounceStop:
    """Act: tell the attempt when it will be stopped (notice), before any signal."""

    attempt_id: AttemptId


@dataclass(frozen=True, kw_only=True, slots=True)
class SignalAttempt:
    """Act: SIGTERM now, SIGKILL at ``stop.kill_ms``. Idempotent."""

    attempt_id: AttemptId


@dataclass(frozen=True, kw_only=True, slots=True)
class SpareAttempt:
    """Act: take the notice back; nothing was signalled."""

    attempt_id: AttemptId


@dataclass(frozen=True, kw_only=True, slots=True)
class StartServer:
    """Act: start the notebook server of a granted ticket through the hub."""

    workload_id: WorkloadId


@dataclass(frozen=True, kw_only=True, slots=True)
class StopServer:
    """Act: stop a notebook server through the hub (a reclaim by an admin, a lost device)."""

    workload_id: WorkloadId


@dataclass(frozen=True, kw_only=True, slots=True)
class RestartServer:
    """Act: start the server of a lease that gave its GPU back again, without one."""

    workload_id: WorkloadId


#: What the hub is asked to do.
ServerAct = StartServer | StopServer | RestartServer
Act = StartAttempt | AnnounceStop | SignalAttempt | SpareAttempt | ServerAct
