"""What is due after a commit: repeated every cycle until its effect is reported back.

Acts are derived from the state alone, so a crash between write and act loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gpucommons.scheduler.core.events.leases import SERVER_GONE
from gpucommons.scheduler.core.model.actions import (
    Act,
    AnnounceStop,
    RestartServer,
    ServerAct,
    SignalAttempt,
    SpareAttempt,
    StartAttempt,
    StartServer,
    StopServer,
)
from gpucommons.scheduler.core.model.lifecycle import is_ended_lease, is_final, is_lease
from gpucommons.scheduler.core.model.types import AttemptState, Workload, WorkloadId


def due(workloads: Iterable[Workload], now_ms: int) -> tuple[Act, ...]:
    """All acts that are due now, in a fixed order."""
    concerned = (w for w in workloads if not is_final(w) or is_ended_lease(w, now_ms))
    in_order = sorted(concerned, key=lambda one: one.workload_id)
    return tuple(act for workload in in_order for act in _of(workload))


def is_due(workloads: Mapping[WorkloadId, Workload], act: ServerAct) -> bool:
    """Whether the hub would be asked for this now, too."""
    lease = workloads.get(act.workload_id)
    return lease is not None and act in _of(lease)


def _of(workload: Workload) -> Iterator[Act]:
    attempt = workload.current
    if _to_restart(workload):
        yield RestartServer(workload_id=workload.workload_id)
    if attempt is None:
        return
    if is_lease(workload):
        # Of a server that never reported that it runs, the name may stand for another one by now.
        runs = attempt.started_ms is not None
        if runs and attempt.stop is not None and attempt.stop.why not in SERVER_GONE:
            yield StopServer(workload_id=workload.workload_id)
        elif attempt.stop is None and workload.redeem_by_ms is not None:
            yield StartServer(workload_id=workload.workload_id)
        return
    if attempt.stop is not None:
        if attempt.stop.signalled:
            yield SignalAttempt(attempt_id=attempt.attempt_id)
            return
        yield AnnounceStop(attempt_id=attempt.attempt_id)
    elif attempt.spared_ms is not None:
        yield SpareAttempt(attempt_id=attempt.attempt_id)
    if attempt.state is AttemptState.STARTING:
        yield StartAttempt(attempt_id=attempt.attempt_id)


def _to_restart(workload: Workload) -> bool:
    """Its server is down, and is to come back without a GPU; due while the lease is remembered."""
    last = workload.attempts[-1] if workload.attempts else None
    if last is None or last.stop is None or not last.stop.restart_on_cpu:
        return False
    return is_final(workload) or last.stop.why in SERVER_GONE
