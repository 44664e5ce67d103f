"""The loop's hands, by themselves."""

from __future__ import annotations

import pytest

from gpucommons.scheduler.core.model.state import AttemptEnded, Cluster
from gpucommons.scheduler.core.model.types import AttemptId
from gpucommons.scheduler.loop.acting import Acting, Current, current_attempts


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
