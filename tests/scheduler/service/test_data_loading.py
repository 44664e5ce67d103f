"""A job's data loader over the service: measured, advised, chosen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from service_world import ServiceWorld, a_request, done

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import UserName, WorkloadId
from gpucommons.scheduler.errors import Forbidden, InvalidTransition
from gpucommons.scheduler.principal import Principal, PrincipalKind
from gpucommons.scheduler.service.data_loading import choose_loader, data_advice
from gpucommons.scheduler.service.jobs import attempts, jobs, run_again

LOADING: dict[str, Any] = {
    "batches": 200,
    "batch_us": 160_000,
    "wait_us": 120_000,
    "late_percent": 100,
    "workers": 0,
    "cores": 16,
    "samples": 1000,
    "sample_bytes": 1000,
}


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    return ServiceWorld(tmp_path)


def running(world: ServiceWorld) -> models.JobView:
    request = a_request(role={"milli_gpu": 1000, "cpu_milli": 4000, "memory_mib": 4096})
    job = jobs.submit(world.service, world.principal("ann"), request, key=None)
    world.pass_time(0)
    world.pass_time(1000)
    return job


def tell(world: ServiceWorld, job: models.JobView, **changes: Any) -> None:
    attempt = world.loop.cluster.workloads[WorkloadId(job.id)].current
    assert attempt is not None
    speaker = Principal(
        name=UserName("ann"), kind=PrincipalKind.ATTEMPT, attempt_id=attempt.attempt_id
    )
    report = models.ProgressReport(
        step=1, loading=models.LoadingReport.model_validate(LOADING | changes)
    )
    attempts.report_progress(world.service, speaker, report)
    world.pass_time(1000)


def asked(world: ServiceWorld, job: models.JobView, by: str = "ann") -> models.DataAdvice:
    return data_advice(world.service, world.principal(by), job.id)


def test_before_anything_was_timed_it_is_said_how_it_would_be(world: ServiceWorld) -> None:
    found = asked(world, running(world))
    assert (found.verdict, found.advised, found.can_choose) == ("unknown", None, True)
    assert "is not known: its script reports nothing of it" in found.text
    assert "run.batches(loader)" in found.text


def test_of_a_job_whose_script_never_ran_nobody_says_that_it_reports_nothing(
    world: ServiceWorld,
) -> None:
    ann = world.principal("ann")
    tomorrow = a_request(role={"milli_gpu": 1000}, not_before_ms=world.now_ms + 86_400_000)
    job = jobs.submit(world.service, ann, tomorrow, key=None)
    assert asked(world, job).text.endswith("is not known: it has not started yet.")
    done(jobs.cancel(world.service, ann, job.id))
    assert asked(world, job).text.endswith("is not known: it never started.")


def test_what_it_waits_is_said_with_what_would_help_and_where_that_is_from(
    world: ServiceWorld,
) -> None:
    job = running(world)
    tell(world, job)
    found = asked(world, job)
    assert found.advised == models.LoaderSettings(workers=3, prefetch=2)
    assert (found.batch_ms, found.wait_ms, found.low_ms) == (160, 120, 40)
    assert found.text == (
        "It waits for its data for 120 ms of 160 ms per batch (75 %). With 3 workers, 2 batches ahead"
        " each, now no workers: likely 40 ms to 44 ms (the longer of computing and loading ÷ workers)."
        " All of its data takes 0.01 GiB once it is loaded, and each worker of the job has 4.0 GiB of"
        " memory, shared by its training processes: where samples are the same each time, keep them there. Timed over the newest 200"
        " batches of attempt 1, in its first process."
    )


def test_a_choice_holds_from_the_next_attempt_on_and_is_stored(world: ServiceWorld) -> None:
    job = running(world)
    tell(world, job)
    assert asked(world, job).chosen is None  # nothing is set by being advised
    wanted = models.LoaderSettings(workers=3)
    done(choose_loader(world.service, world.principal("ann"), job.id, wanted))
    chosen = asked(world, job).chosen
    assert chosen is not None
    assert (chosen.workers, chosen.prefetch, chosen.by, chosen.in_force) == (3, 2, "ann", False)
    stored = world.store.load().workloads[WorkloadId(job.id)]
    assert stored.loader is not None
    assert stored.attempts[-1].loading is not None
    done(choose_loader(world.service, world.principal("ann"), job.id, models.LoaderSettings()))
    assert asked(world, job).chosen is None


def test_an_attempt_that_begins_in_the_moment_of_the_choice_runs_with_it(
    world: ServiceWorld,
) -> None:
    ann = world.principal("ann")
    request = a_request(role={"milli_gpu": 1000, "cpu_milli": 4000, "memory_mib": 4096})
    job = jobs.submit(world.service, ann, request, key=None)
    choose_loader(world.service, ann, job.id, models.LoaderSettings(workers=3))
    world.pass_time(0)
    begun = world.loop.cluster.workloads[WorkloadId(job.id)]
    chosen = asked(world, job).chosen
    assert chosen is not None
    assert begun.attempts[-1].reserved_ms == chosen.at_ms
    assert chosen.in_force


def test_another_run_of_the_same_keeps_what_was_chosen(world: ServiceWorld) -> None:
    job, ann = running(world), world.principal("ann")
    done(choose_loader(world.service, ann, job.id, models.LoaderSettings(workers=3)))
    again = run_again.again(world.service, ann, job.id, key=None)
    world.pass_time(1000)
    chosen = asked(world, again).chosen
    assert chosen is not None
    assert (chosen.workers, chosen.by) == (3, "ann")


def test_only_who_may_steer_it_chooses_and_only_while_it_is_not_over(world: ServiceWorld) -> None:
    job, wanted = running(world), models.LoaderSettings(workers=3)
    with pytest.raises(Forbidden):
        choose_loader(world.service, world.principal("alf"), job.id, wanted)
    ann = world.principal("ann")
    done(jobs.cancel(world.service, ann, job.id))
    world.pass_time(60_000)
    assert not asked(world, job).can_choose
    with pytest.raises(InvalidTransition):
        choose_loader(world.service, ann, job.id, wanted)


def test_nothing_is_advised_that_cannot_be_chosen_also_after_an_older_report(
    world: ServiceWorld,
) -> None:
    job = running(world)
    tell(world, job, workers=1024, late_percent=10)
    workload = world.loop.cluster.workloads[WorkloadId(job.id)]
    told = workload.attempts[-1]
    assert told.loading is not None
    older = replace(told, loading=replace(told.loading, workers=9000))
    world.loop.cluster.workloads[workload.workload_id] = replace(workload, attempts=(older,))  # type: ignore[index]
    advised = asked(world, job).advised
    assert advised is not None
    assert (advised.workers, advised.prefetch) == (1024, 4)


@pytest.mark.parametrize(
    "wrong",
    [
        {"wait_us": 160_001},
        {"batch_us": 0},
        {"workers": -1},
        {"workers": 1025},
        {"prefetch": 1025},
        {"batch_us": float("nan")},
        {"file_system": "a b"},
        {"late_percent": 101},
        {"extra": 1},
    ],
)
def test_a_report_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        models.LoadingReport.model_validate(LOADING | wrong)


def test_a_job_that_is_over_is_run_again_as_is_advised(world: ServiceWorld) -> None:
    ann, job = world.principal("ann"), running(world)
    tell(world, job)
    done(jobs.cancel(world.service, ann, job.id))
    world.pass_time(60_000)
    over = asked(world, job)
    assert (over.can_choose, over.advised) == (False, models.LoaderSettings(workers=3, prefetch=2))
    again = run_again.again(world.service, ann, job.id, key="once", loader=over.advised)
    twice = run_again.again(world.service, ann, job.id, key="once", loader=over.advised)
    world.pass_time(0)
    chosen = asked(world, again).chosen
    assert chosen is not None
    assert (chosen.workers, chosen.by, chosen.in_force) == (3, "ann", True)
    assert twice.id == again.id
    plain = run_again.again(world.service, ann, job.id, key=None)
    assert asked(world, plain).chosen is None
