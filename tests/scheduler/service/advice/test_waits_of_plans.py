"""A job's wait beside that of its plan is all of it: the first, and those after stops."""

from __future__ import annotations

import pytest
from builders import a_job
from judged_runs import MINUTE, a_plan

from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    AttemptState,
    HoldClass,
    Millis,
    PausedSpan,
    State,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.plans import Said
from gpucommons.scheduler.service.advice.plan_beside_outcome import plan_record
from gpucommons.scheduler.service.advice.plan_outcomes import Seen, beside_its_plan


def ran(*spans: tuple[int, int | None], paused: tuple[int, int] | None = None) -> Workload:
    """Submitted at 0; attempts from minute to minute."""
    return Workload(
        workload_id=WorkloadId("w"),
        spec=a_job("digits-1", 1000),
        state=State.SUCCEEDED,
        submitted_ms=Millis(0),
        since_ms=Millis(0),
        attempts=tuple(
            Attempt(
                attempt_id=AttemptId(str(number)),
                workload_id=WorkloadId("w"),
                number=number,
                state=AttemptState.ENDED if end is not None else AttemptState.RUNNING,
                hold_class=HoldClass.OVER_QUOTA,
                placements=(),
                reserved_ms=Millis(begin * MINUTE),
                ended_ms=None if end is None else Millis(end * MINUTE),
            )
            for number, (begin, end) in enumerate(spans, 1)
        ),
        pauses=()
        if paused is None
        else (PausedSpan(from_ms=Millis(paused[0] * MINUTE), to_ms=Millis(paused[1] * MINUTE)),),
    )


@pytest.mark.parametrize(
    ("workload", "waited_min", "right"),
    [
        (ran((3, 60)), 3, True),
        (ran((3, 10), (40, 60)), 33, False),
        (ran((0, 10), (12, 20), (21, None)), 3, True),
        (ran((2, 10), (40, 60), paused=(10, 38)), 4, True),
        # It grew: one attempt's end is the next one's beginning.
        (ran((1, 10), (10, 60)), 1, True),
    ],
)
def test_a_second_wait_counts_and_a_pause_of_ones_own_does_not(
    workload: Workload, waited_min: int, right: bool
) -> None:
    plan = a_plan(wait_s=Said(0.0, 120.0, 300.0), made_ms=0)
    run = beside_its_plan(Seen(workload=workload, points=(), rows=(), pools={}), plan)
    assert run.actual.wait_ms == waited_min * MINUTE
    record = plan_record(run, ended_ms=Millis(60 * MINUTE))
    (line,) = (one for one in record.lines if one.what == "Wait")
    assert line.right is right


def test_who_never_started_has_no_wait_to_compare() -> None:
    run = beside_its_plan(Seen(workload=ran(), points=(), rows=(), pools={}), a_plan())
    assert run.actual.wait_ms is None
