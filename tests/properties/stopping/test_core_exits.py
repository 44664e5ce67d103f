"""Promise 13 over random histories: a job is not called succeeded for obeying, nor stopped when done.

What processes were told and have done is kept apart from what the scheduler makes of it.
"""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from properties.histories import History
from properties.test_core_promises import anything, many

from gpucommons.scheduler.core.model.lifecycle import is_lease
from gpucommons.scheduler.core.model.types import Attempt, State, Workload

#: A borrower ignores the signal of its stop and ends by itself within its grace.
DONE_WITHIN_ITS_GRACE = [
    *[("submit", 0, 4, 0, 0)] * 6,
    ("stubborn", 0, 0, 0, 0),
    ("pause", 0, 0, 0, 0),
    ("finish", 0, 0, 0, 0),
]


def check(history: History) -> None:
    world = history.world
    known = {**world.finals, **world.cluster.workloads}
    for workload in known.values():
        last = workload.attempts[-1] if workload.attempts else None
        if last is None or is_lease(workload) or last.ended_ms is None:
            continue
        _agrees(history, workload, last)


def _agrees(history: History, workload: Workload, last: Attempt) -> None:
    process = history.machines.processes.get(last.attempt_id)
    if process is None or process.alive:
        return
    succeeded = workload.state is State.SUCCEEDED
    if process.told and not process.done:
        assert not succeeded, f"{process} obeyed and is called done"
    if not process.heard:
        return
    unhindered = last.started_ms is not None and workload.state is not State.CANCELLED
    if process.exit_code == 0 and unhindered and (process.done or not process.told):
        assert succeeded, f"{process} was done and is {workload.state}"
    if process.done and unhindered:
        assert succeeded, f"{process} said that it was done and is {workload.state}"


#: The supervisor of a job that has said so, and has its notice, is killed.
DONE_BEFORE_ITS_SUPERVISOR_DIED = [
    ("submit", 0, 4, 0, 0),
    ("stubborn", 0, 0, 0, 0),
    ("pause", 0, 0, 0, 0),
    ("vanish", 0, 1, 0, 0),
]


@many
@given(anything)
@example(DONE_BEFORE_ITS_SUPERVISOR_DIED)
@example(DONE_WITHIN_ITS_GRACE)
def test_a_job_has_succeeded_when_it_was_done_and_not_when_it_obeyed(steps: Any) -> None:
    History(check).play(steps)
