"""Launches of local jobs and looks at what became of them, for tests with real processes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import replace

import psutil

from gpucommons.scheduler.core.model.state import AttemptEnded, Observation
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    AttemptState,
    HoldClass,
    Kind,
    Millis,
    NodeId,
    PoolName,
    Role,
    Spec,
    State,
    Stop,
    TeamName,
    UserName,
    WorkerPlacement,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.local.local import LocalExecutor

#: What a killed supervisor left is found on the whole machine, by the attempt's id: of tests that run
#: side by side no two may have the same, or one ends what the other has just begun.
_MINE = uuid.uuid4().hex[:8]


def attempt_id(number: int) -> AttemptId:
    """Of the tests of this process alone."""
    return AttemptId(f"a{number}-{_MINE}")


def a_launch(*command: str, workers: int = 1, number: int = 1, **spec: object) -> Launch:
    attempt = Attempt(
        attempt_id=attempt_id(number),
        workload_id=WorkloadId("w1"),
        number=1,
        state=AttemptState.RESERVED,
        hold_class=HoldClass.CPU,
        placements=tuple(
            WorkerPlacement(role="worker", index=index, node_id=NodeId("here"), cpu_milli=1000)
            for index in range(workers)
        ),
        reserved_ms=Millis(1),
    )
    fields: dict[str, object] = {
        "kind": Kind.TRAINING,
        "name": "digits-1",
        "team": TeamName("vision"),
        "owner": UserName("alice"),
        "submitted_by": UserName("alice"),
        "pools": (PoolName("cpu"),),
        "roles": (Role(count=workers, command=command),),
    }
    workload = Workload(
        workload_id=WorkloadId("w1"),
        spec=Spec(**{**fields, **spec}),  # type: ignore[arg-type] # test fields
        state=State.ADMITTED,
        submitted_ms=Millis(1),
        since_ms=Millis(1),
        attempts=(attempt,),
    )
    return Launch(
        workload=workload, attempt=attempt, token_of=lambda _: "gca-secret", api_url="http://x"
    )


def stopping(launch: Launch, *, kill_in_s: float) -> Attempt:
    now = int(time.time() * 1000)
    stop = Stop(
        why="preempt",
        text="for nlp (its guarantee)",
        announced_ms=Millis(now),
        term_ms=Millis(now),
        kill_ms=Millis(now + int(kill_in_s * 1000)),
    )
    return replace(launch.attempt, stop=stop)


def until(what: Callable[[], object], timeout_s: float = 60) -> object:
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


def ended(executor: LocalExecutor) -> AttemptEnded:
    def look() -> Observation | None:
        return next((o for o in executor.observe() if isinstance(o, AttemptEnded)), None)

    found = until(look)
    assert isinstance(found, AttemptEnded)
    return found


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def lines(executor: LocalExecutor, launch: Launch, rank: int = 0) -> list[str]:
    chunk = executor.log(launch.attempt, rank=rank, offset=0, limit_bytes=1 << 20)
    return list(chunk.lines)


def python(code: str) -> tuple[str, ...]:
    return ("python", "-u", "-c", code)
