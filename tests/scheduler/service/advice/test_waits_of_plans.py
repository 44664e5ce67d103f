"""A job's wait beside that of its plan is all of it: the first, and those after stops."""

from __future__ import annotations

import pytest
from builders import a_job
from judged_runs import HOUR, MINUTE, a_plan, a_run

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
from gpucommons.scheduler.service.advice.calibration import calibration_view
from gpucommons.scheduler.service.advice.plan_beside_outcome import plan_record
from gpucommons.scheduler.service.advice.plan_outcomes import Seen, beside_its_plan
from gpucommons.scheduler.store.codec import from_plain, to_plain
from gpucommons.scheduler.store.plans.base import Actual


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
    assert (run.actual.wait_ms, run.actual.wait_is_whole) == (waited_min * MINUTE, True)
    record = plan_record(run, ended_ms=Millis(60 * MINUTE))
    (line,) = (one for one in record.lines if one.what == "Wait")
    assert line.right is right


def test_who_never_started_has_no_wait_to_compare() -> None:
    run = beside_its_plan(Seen(workload=ran(), points=(), rows=(), pools={}), a_plan())
    assert run.actual.wait_ms is None


def test_a_run_of_which_the_first_wait_alone_was_kept_is_not_counted_among_whole_ones() -> None:
    plan = a_plan(wait_s=Said(0.0, 120.0, 300.0))
    now = [a_run(number, plan=plan, wait_ms=MINUTE) for number in range(1, 3)]
    before = a_run(3, plan=plan, wait_ms=MINUTE, wait_is_whole=False)
    view = calibration_view([], [*now, before], from_ms=Millis(0), now_ms=Millis(9 * HOUR))
    (row,) = (one for one in view.grades if one.grade == "C")
    assert (row.runs, row.speed.of) == (3, 3)
    assert (row.wait.right, row.wait.of) == (2, 2)
    assert [one for one in view.notes if "waits" in one] == [
        "1 run of an earlier release left out of the waits: what they waited after stops was not kept."
    ]
    # Its page says what is known, and whether it was done in time: the end is no matter of waits.
    lines = {one.what: one for one in plan_record(before, ended_ms=before.ended_ms).lines}
    assert (lines["Wait"].actual, lines["Wait"].right) == ("1 min", None)
    assert lines["Finish"].right is not None


def test_a_run_that_was_stored_before_says_that_its_wait_is_the_first_alone() -> None:
    stored = to_plain(a_run(wait_ms=MINUTE).actual, Actual)
    del stored["wait_is_whole"]
    assert from_plain(Actual, stored) == a_run(wait_ms=MINUTE, wait_is_whole=False).actual
