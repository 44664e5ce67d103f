"""After a restore an executor finds what began since the backup; `test_executor` has the cluster's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from executor_rigs import ENDS, RUNS, FakeRig, LocalRig, Rig

from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.ids import made_ms
from tests.contracts.test_executor import end_of, launch, runs


@pytest.fixture(params=[FakeRig, LocalRig])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    made: Rig = request.param(tmp_path)
    yield made
    made.clear()


def test_what_began_since_a_moment_is_found_with_its_job_by_an_executor_that_knows_nothing(
    rig: Rig,
) -> None:
    job, done = launch(rig, RUNS), launch(rig, ENDS, number=2)
    for one in (job, done):
        rig.executor.start(one)
    runs(rig, job)
    end_of(rig, done)
    began_ms = Millis(made_ms(job.attempt.attempt_id))
    rig.restart()
    found = {one.attempt_id: one for one in rig.executor.since(began_ms)}
    assert {job.attempt.attempt_id, done.attempt.attempt_id} <= found.keys()
    runs_on, ended = found[job.attempt.attempt_id], found[done.attempt.attempt_id]
    assert (runs_on.job_id, runs_on.running, runs_on.succeeded) == ("w-1", True, False)
    assert (ended.job_id, ended.running, ended.succeeded) == ("w-1", False, True)
    assert not {*found} & {one.attempt_id for one in rig.executor.since(Millis(began_ms + 1))}
