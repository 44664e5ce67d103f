"""A new job goes on from what an earlier one saved, and takes its place where that still waits."""

from __future__ import annotations

from pathlib import Path

import pytest
from service_world import CONFIG, ServiceWorld, a_request, done

from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.old_job_files import Known
from gpucommons.scheduler.core.model.state import CheckpointReported
from gpucommons.scheduler.core.model.types import Attempt, Checkpoint, WorkloadId
from gpucommons.scheduler.errors import Forbidden, InvalidTransition, Misconfigured, UnknownWorkload
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import job_quote
from gpucommons.scheduler.service.jobs import jobs, logs, run_again
from gpucommons.scheduler.store.base import LogPoint


@pytest.fixture
def ann(world: ServiceWorld) -> Principal:
    return world.principal("ann")


def attempt_of(world: ServiceWorld, job: models.JobView) -> Attempt:
    attempt = world.cluster.workloads[WorkloadId(job.id)].current
    assert attempt is not None
    return attempt


def saved_by(world: ServiceWorld, job: models.JobView, step: int = 17) -> Checkpoint:
    attempt_id = attempt_of(world, job).attempt_id
    saved = Checkpoint(
        attempt_id=attempt_id,
        step=step,
        path=f"checkpoints/step-{step}",
        size_bytes=1,
        sha256="0" * 64,
        at_ms=world.now_ms,
    )
    world.loop.observe(CheckpointReported(attempt_id=attempt_id, checkpoint=saved))
    return saved


def stopped(world: ServiceWorld, ann: Principal) -> tuple[models.JobView, Checkpoint]:
    """digits-1 has saved step 17 and waits."""
    job = jobs.submit(world.service, ann, a_request(role={"milli_gpu": 1000}), key=None)
    world.pass_time(1000)
    saved = saved_by(world, job)
    done(jobs.pause(world.service, ann, job.id))
    world.pass_time(60_000)
    assert jobs.job(world.service, ann, job.id).state == "paused"
    return job, saved


def test_the_new_job_resumes_from_the_waiting_ones_checkpoint_in_its_place(
    world: ServiceWorld, ann: Principal
) -> None:
    old, saved = stopped(world, ann)
    asked = a_request(role={"milli_gpu": 500}, resume_from="digits-1")
    new = jobs.submit(world.service, ann, asked, key=None)
    assert new.request is not None
    assert new.request.resume_from == old.id
    world.pass_time(1000)

    assert attempt_of(world, new).resumed_from == saved
    assert jobs.job(world.service, ann, new.id).attempts[0].resumed_from_step == 17
    gone = jobs.job(world.service, ann, old.id)
    assert (gone.state, gone.ended_text) == ("cancelled", f"{new.name} goes on in its place")


def test_a_job_that_is_over_and_forgotten_is_gone_on_from_too(
    world: ServiceWorld, ann: Principal
) -> None:
    old, saved = stopped(world, ann)
    done(jobs.cancel(world.service, ann, old.id))
    world.pass_time(7 * 86_400_000)
    assert WorkloadId(old.id) not in world.cluster.workloads
    new = jobs.submit(world.service, ann, a_request(resume_from=old.id), key=None)
    assert new.checkpoint is not None
    assert attempt_of(world, new).resumed_from == saved


def test_run_again_from_here_goes_on_with_one_curve(world: ServiceWorld, ann: Principal) -> None:
    old, saved = stopped(world, ann)
    points = [
        LogPoint(attempt_number=1, step=step, at_ms=world.now_ms, metrics={"loss": 1 / step})
        for step in (5, 17, 23)
    ]
    world.store.add_points(world.loop.epoch, {WorkloadId(old.id): points})
    with pytest.raises(InvalidTransition, match="resume it if it is paused"):
        run_again.again(world.service, ann, old.id, key=None, from_here=True)
    done(jobs.cancel(world.service, ann, old.id))
    world.pass_time(1000)
    with pytest.raises(Forbidden, match="only their own"):
        run_again.again(world.service, world.principal("alf"), old.id, key=None, from_here=True)
    new = run_again.again(world.service, ann, old.id, key=None, from_here=True)
    world.pass_time(1000)
    assert attempt_of(world, new).resumed_from == saved
    # What came after the checkpoint is done again; before it, the curve is the earlier job's.
    found = logs.curve(world.service, ann, new.id).points
    assert [(one.attempt, one.step) for one in found] == [(0, 5), (0, 17)]
    anew = run_again.again(world.service, ann, old.id, key=None)
    assert logs.curve(world.service, ann, anew.id).points == []


def test_the_saved_files_are_kept_as_long_as_the_new_job_is_known(
    world: ServiceWorld, ann: Principal
) -> None:
    old, saved = stopped(world, ann)
    waits = a_request(resume_from=old.id, not_before_ms=world.now_ms + 90 * 86_400_000)
    jobs.submit(world.service, ann, waits, key=None)
    # The store forgets the old one; the files are found through the new one.
    world.store.prune(world.loop.epoch, before_ms=world.now_ms, kept=())
    assert saved.attempt_id in Known(world.store)


@pytest.mark.parametrize("who", ["alf", "ada"])
def test_nobody_goes_on_from_somebody_elses_files(
    world: ServiceWorld, ann: Principal, who: str
) -> None:
    stopped(world, ann)
    for call in (jobs.submit, job_quote.quote_job):
        key = {"key": None} if call is jobs.submit else {}
        with pytest.raises(Forbidden, match="digits-1 belongs to ann"):
            call(world.service, world.principal(who), a_request(resume_from="digits-1"), **key)
        named = a_request(resume_from="digits-1", team="vision")
        with pytest.raises(Forbidden, match="digits-1 belongs to ann"):
            call(world.service, world.admin, named, **key)
        with pytest.raises(UnknownWorkload):
            call(world.service, world.principal("bob"), a_request(resume_from="digits-1"), **key)
    assert jobs.job(world.service, ann, "digits-1").state == "paused"


def test_another_teams_progress_is_not_gone_on_from(tmp_path: Path) -> None:
    teams = [dict(team) for team in CONFIG["teams"]]
    teams[1]["members"] = ["ann"]
    world = ServiceWorld(tmp_path, config={**CONFIG, "teams": teams})
    ann = world.principal("ann")
    asked = a_request(role={"milli_gpu": 1000}, team="vision")
    job = jobs.submit(world.service, ann, asked, key=None)
    world.pass_time(1000)
    saved_by(world, job)
    done(jobs.cancel(world.service, ann, job.id))
    with pytest.raises(Misconfigured, match="belongs to vision, this to nlp"):
        jobs.submit(world.service, ann, a_request(resume_from=job.id, team="nlp"), key=None)


def test_what_saved_nothing_or_still_runs_is_refused_with_what_to_do(
    world: ServiceWorld, ann: Principal
) -> None:
    job = jobs.submit(world.service, ann, a_request(), key=None)
    world.pass_time(1000)
    with pytest.raises(Misconfigured, match="has saved no checkpoint"):
        jobs.submit(world.service, ann, a_request(resume_from=job.id), key=None)
    saved_by(world, job)
    with pytest.raises(Misconfigured, match=r"is running and may save more\. Pause or cancel"):
        jobs.submit(world.service, ann, a_request(resume_from=job.id), key=None)
    assert jobs.job(world.service, ann, job.id).state == "running"


def test_run_again_starts_from_the_beginning(world: ServiceWorld, ann: Principal) -> None:
    old, _ = stopped(world, ann)
    new = jobs.submit(world.service, ann, a_request(resume_from=old.id), key=None)
    again = run_again.again(world.service, ann, new.id, key=None)
    assert again.request is not None
    assert (again.request.resume_from, again.checkpoint) == (None, None)


def test_at_the_cap_the_one_that_gives_way_does_not_count(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path, config={**CONFIG, "policy": {"max_pending_per_user": 1}})
    ann = world.principal("ann")
    old, _ = stopped(world, ann)
    bob = world.principal("bob")
    jobs.submit(world.service, bob, a_request(role={"milli_gpu": 4000}), key=None)
    world.pass_time(1000)
    done(jobs.resume(world.service, ann, old.id))
    assert jobs.job(world.service, ann, old.id).state in ("queued", "nominated")
    asked = a_request(resume_from=old.id, not_before_ms=world.now_ms + 60_000)
    assert jobs.submit(world.service, ann, asked, key=None).state == "queued"


def test_of_a_job_that_is_being_cancelled_nobody_says_that_it_goes_on(
    world: ServiceWorld, ann: Principal
) -> None:
    job = jobs.submit(world.service, ann, a_request(), key=None)
    world.pass_time(1000)
    saved_by(world, job)
    running = jobs.job(world.service, ann, job.id).way_to_go_on
    assert running is not None
    assert running.step == 17

    cancelled = done(jobs.cancel(world.service, ann, job.id))

    assert (cancelled.state, cancelled.way_to_go_on) == ("cancelling", None)
