"""Where a job's files are: what is not on record is not said to be on its way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from service_world import ServiceWorld, a_request, done

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import State, Workload, WorkloadId
from gpucommons.scheduler.file_storage.job_files import JobFiles
from gpucommons.scheduler.service.jobs import jobs, results
from gpucommons.scheduler.service.jobs.results import results_view
from gpucommons.scheduler.service.service import Deciding, Service
from gpucommons.scheduler.service.views.where_it_runs import AWAY
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

    def chunks(self, job: Workload, only: str = "") -> Iterator[bytes]:
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
        (Files(), "unknown", "No record of what it wrote is left."),
    ],
)
def test_only_what_really_comes_is_said_to_be_on_its_way(
    world: ServiceWorld, files: Files, state: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "executor_of", lambda *_: "local")
    found = results_of(world, files)

    assert found.state == state
    assert says in found.text


def test_of_an_executor_that_brings_files_by_itself_nothing_is_claimed(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "executor_of", lambda *_: "slurm")
    found = results_of(world, Files())

    assert found.state == "unknown"
    assert found.text == (
        "It ran with the executor slurm, which brings a job's files by itself: what became of them is"
        " not on record here. If they were brought, they are in results/digits-1/ in the home folder"
        " of ann."
    )


def test_a_job_that_never_ran_wrote_nothing(world: ServiceWorld) -> None:
    found = results_of(world, Files(), started=False)

    assert (found.state, found.text) == ("never_ran", "It never ran, so it wrote no files.")


def in_a_cluster(service: Service) -> Service:
    """The same jobs, as if their pools were of a cluster."""
    cluster = service.loop.cluster
    pools = {name: replace(pool, executor=AWAY) for name, pool in cluster.pools.items()}
    deciding = SimpleNamespace(cluster=replace(cluster, pools=pools))
    return replace(service, loop=cast("Deciding", deciding))


@pytest.mark.parametrize("runs", [True, False])
def test_a_cluster_promises_files_only_where_it_can_keep_them(
    world: ServiceWorld, runs: bool
) -> None:
    ann = world.principal("ann")
    job = jobs.submit(world.service, ann, a_request(role={"milli_gpu": 1000}), key=None)
    world.pass_time(1000)
    found = world.cluster.workloads[WorkloadId(job.id)]
    found = found if runs else replace(found, attempts=())
    service = in_a_cluster(world.service)
    storage = cast("JobFiles", object())

    without = results_view(service, ann, found)
    with_storage = results_view(replace(service, files={AWAY: storage}), ann, found)

    assert without is not None
    assert with_storage is not None
    assert (without.state, without.folder) == ("lost", None)
    assert "is lost when it ends: this cluster has no storage" in without.text
    assert with_storage.text.endswith(
        "while JupyterLab is open, or with: gpucommons results digits-1"
    )
