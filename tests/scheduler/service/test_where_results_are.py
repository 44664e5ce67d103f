"""Where a job's files are: what is not on record is not said to be on its way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from service_world import ServiceWorld, a_request, done

from gpucommons.scheduler import models
from gpucommons.scheduler.core.types import State, Workload, WorkloadId
from gpucommons.scheduler.service import jobs
from gpucommons.scheduler.service.results import results_view
from gpucommons.scheduler.working_folder.giving_back import Outcome


class Files:
    """What is known of one job's files."""

    def __init__(self, *, coming: bool = False, left: bool = False) -> None:
        self._coming, self._left = coming, left

    def outcome(self, job: Workload) -> Outcome | None:
        return None

    def is_coming(self, job: Workload) -> bool:
        return self._coming

    def are_left(self, job: Workload) -> bool:
        return self._left

    def chunks(self, job: Workload) -> Iterator[bytes]:
        return iter(())


def results_of(world: ServiceWorld, files: Files, *, started: bool = True) -> models.ResultsView:
    ann = world.principal("ann")
    job = jobs.submit(world.service, ann, a_request(role={"milli_gpu": 1000}), key=None)
    world.pass_time(1000)
    done(jobs.cancel(world.service, ann, job.id))
    world.pass_time(60_000)
    over = world.store.workload(WorkloadId(job.id))
    assert over is not None
    assert over.state is State.CANCELLED
    if not started:
        attempts = tuple(replace(attempt, started_ms=None) for attempt in over.attempts)
        over = replace(over, attempts=attempts)
    found = results_view(replace(world.service, own_results=files), ann, over)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("files", "state", "says"),
    [
        (Files(coming=True, left=True), "copying", "is being copied to results/digits-1/"),
        (Files(left=True), "stayed", "not known: it began under an earlier release. Bring it"),
        (Files(), "none", "No record of what it wrote is left."),
    ],
)
def test_only_what_really_comes_is_said_to_be_on_its_way(
    world: ServiceWorld, files: Files, state: str, says: str
) -> None:
    found = results_of(world, files)

    assert found.state == state
    assert says in found.text


def test_a_job_that_never_ran_wrote_nothing(world: ServiceWorld) -> None:
    found = results_of(world, Files(), started=False)

    assert (found.state, found.text) == ("none", "It never ran, so it wrote no files.")
