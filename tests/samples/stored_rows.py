"""What tests of stores keep in them."""

from __future__ import annotations

from dataclasses import replace

from gpucommons.scheduler.core.model.intents import Intent, Submit
from gpucommons.scheduler.core.model.state import Event
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    AttemptState,
    Checkpoint,
    HoldClass,
    IntentId,
    Kind,
    Millis,
    NodeId,
    PoolName,
    Role,
    Spec,
    State,
    TeamName,
    UserName,
    WorkerPlacement,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.parents import ParentId, ParentKind
from gpucommons.scheduler.store.base import (
    LedgerRow,
    LogPoint,
)
from gpucommons.scheduler.sweeps.sweep import Budget, Halving, Parameter, Sweep

NOW = Millis(1_000_000)
VISION = TeamName("vision")


def spec(**changes: object) -> Spec:
    plain = Spec(
        kind=Kind.TRAINING,
        name="digits-1",
        team=VISION,
        owner=UserName("ada"),
        submitted_by=UserName("ada"),
        pools=(PoolName("train"),),
        roles=(Role(command=("python", "train.py"), milli_gpu=500),),
        env={"A": "ä \u0000 \U0001f600"},
    )
    return replace(plain, **changes)  # type: ignore[arg-type] # any field


def job(number: int, state: State = State.QUEUED, **changes: object) -> Workload:
    return Workload(
        workload_id=WorkloadId(f"w-{number:04}"),
        spec=spec(**changes),
        state=state,
        submitted_ms=Millis(NOW + number),
        since_ms=NOW,
        ended_ms=NOW if state in (State.SUCCEEDED, State.FAILED) else None,
    )


def running(number: int) -> Workload:
    attempt = Attempt(
        attempt_id=AttemptId(f"a-{number}"),
        workload_id=WorkloadId(f"w-{number:04}"),
        number=1,
        state=AttemptState.RUNNING,
        hold_class=HoldClass.OVER_QUOTA,
        placements=(WorkerPlacement(role="worker", index=0, node_id=NodeId("n"), milli_gpu=500),),
        reserved_ms=NOW,
        resumed_from=Checkpoint(
            attempt_id=AttemptId("a-0"),
            step=7,
            path="checkpoints/step-7",
            size_bytes=1,
            sha256="0" * 64,
            at_ms=NOW,
        ),
    )
    return replace(job(number, State.RUNNING), attempts=(attempt,))


def submit(number: int, **changes: object) -> Intent:
    plain = Intent(
        intent_id=IntentId(f"i-{number:04}"),
        action=Submit(workload_id=WorkloadId(f"w-{number:04}"), spec=spec()),
        by=UserName("ada"),
        at_ms=NOW,
    )
    return replace(plain, **changes)  # type: ignore[arg-type] # any field


def event(text: str, **changes: object) -> Event:
    plain = Event(at_ms=NOW, kind="submitted", by="ada", text=text, data={"old": None, "new": [1]})
    return replace(plain, **changes)  # type: ignore[arg-type] # any field


def ledger_row(minute: int, **changes: object) -> LedgerRow:
    plain = LedgerRow(
        workload_id=WorkloadId("w-0001"),
        minute_ms=Millis(minute * 60_000),
        team=VISION,
        pool=PoolName("train"),
        owner=UserName("ada"),
        kind=Kind.TRAINING,
        hold_class=HoldClass.GUARANTEED,
        held_milli_gpu_ms=30_000_000,
    )
    return replace(plain, **changes)  # type: ignore[arg-type] # any field


def point(attempt: int, step: int, loss: float = 1.0) -> LogPoint:
    return LogPoint(attempt_number=attempt, step=step, at_ms=NOW, metrics={"loss": loss})


#: With early stopping.
SWEEP = Sweep(
    sweep_id=ParentId("s-1"),
    kind=ParentKind.SWEEP,
    name="search",
    owner=UserName("ann"),
    team=TeamName("vision"),
    made_ms=Millis(0),
    budget=Budget(trials=200),
    request="{}",
    space=(
        Parameter(name="learner", choices=("fast", "slow")),
        Parameter(name="rate", low=0, high=1),
    ),
    metric="accuracy",
    maximize=True,
    halving=Halving(first_step=1, last_step=9),
)
