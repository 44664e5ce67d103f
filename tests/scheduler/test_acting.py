"""The loop's hands, by themselves."""

from __future__ import annotations

from gpucommons.scheduler.acting import current_attempts
from gpucommons.scheduler.core.state import Cluster


def test_current_attempts_are_worked_out_once_per_state_and_anew_for_the_next() -> None:
    cluster = Cluster()
    other = Cluster(workloads={})
    first = current_attempts(cluster)
    assert current_attempts(cluster) is first
    assert current_attempts(other) is not first
    assert current_attempts(cluster) == {}
