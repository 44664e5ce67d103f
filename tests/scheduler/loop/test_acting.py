"""The loop's hands, by themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored_rows import NOW, job, running

from gpucommons.scheduler.core.model.state import AttemptEnded, Cluster
from gpucommons.scheduler.core.model.types import (
    AttemptId,
    AttemptState,
    Parked,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.loop.acting import Acting, Current, current_attempts, parked_leases


def test_current_attempts_are_worked_out_once_per_state_and_anew_for_the_next() -> None:
    cluster = Cluster()
    other = Cluster(workloads={})
    first = current_attempts(cluster)
    assert current_attempts(cluster) is first
    assert current_attempts(other) is not first
    assert current_attempts(cluster) == {}


def test_the_new_state_is_looked_through_once_though_something_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, after = Cluster(workloads={}), Cluster(workloads={})
    current_attempts(before)
    asked: list[Cluster] = []

    def note(cluster: Cluster) -> Current:
        asked.append(cluster)
        return current_attempts(cluster)

    monkeypatch.setattr("gpucommons.scheduler.loop.acting.current_attempts", note)
    ended = AttemptEnded(attempt_id=AttemptId("a-1"), exit_code=0)
    acting = Acting(executors={}, token_of=str, api_url="", on_server_act=lambda _act, _of: None)
    acting.forget_ended((ended,), before, after)
    # The last answer is remembered: of the state before it is, of the new one it is to be.
    assert [one is after for one in asked] == [False, True]


def _waits(number: int) -> Workload:
    return job(number)


def _runs_again(number: int) -> Workload:
    before = running(number)
    (first,) = before.attempts
    ended = replace(first, state=AttemptState.ENDED)
    again = replace(first, attempt_id=AttemptId(f"a-{number}-again"), number=2)
    return replace(before, attempts=(ended, again))


def _is_parked(number: int) -> Workload:
    (attempt,) = running(number).attempts
    parked = Parked(place=attempt.placements[0], rest=attempt, since_ms=NOW)
    return replace(job(number), parked=parked)


@given(
    st.lists(
        st.dictionaries(
            st.integers(0, 4), st.sampled_from((_waits, running, _runs_again, _is_parked, None))
        ),
        max_size=6,
    )
)
def test_what_is_kept_in_step_is_what_would_be_worked_out_anew(
    steps: list[dict[int, object]],
) -> None:
    """Of a hundred thousand workloads only those are looked at that changed."""
    workloads: dict[WorkloadId, Workload] = {}
    for changes in steps:
        workloads = dict(workloads)
        for number, make in changes.items():
            workload_id = WorkloadId(f"w-{number:04}")
            if callable(make):
                workloads[workload_id] = make(number)
            else:
                workloads.pop(workload_id, None)
        cluster = Cluster(workloads=workloads)
        assert current_attempts(cluster) == {
            one.current.attempt_id: (one, one.current) for one in workloads.values() if one.current
        }
        parked = {one.workload_id: (one, one.parked) for one in workloads.values() if one.parked}
        assert {pair[0].workload_id: pair for pair in parked_leases(cluster)} == parked
        assert len(parked_leases(cluster)) == len(parked)
