"""A drill from the pool's row to the job's page, decided by the real core."""

from __future__ import annotations

from pathlib import Path

from service_world import CONFIG, ServiceWorld, a_request

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.jobs.listing import describe
from gpucommons.scheduler.core.model.types import AttemptId, UserName
from gpucommons.scheduler.principal import Identity, Principal, PrincipalKind, resolve
from gpucommons.scheduler.service import job_quote
from gpucommons.scheduler.service.jobs import attempts, jobs


def as_attempt(world: ServiceWorld, view: models.JobView) -> Principal:
    identity = Identity(
        name=UserName("ann"),
        kind=PrincipalKind.ATTEMPT,
        attempt_id=AttemptId(view.attempts[-1].id),
    )
    return resolve(identity, world.cluster.teams)


def test_the_badge_is_on_the_page_and_in_the_next_quote(tmp_path: Path) -> None:
    pools = [{**pool, "drills": "on"} for pool in CONFIG["pools"]]
    world = ServiceWorld(tmp_path, config={**CONFIG, "pools": pools})
    ann, code = world.principal("ann"), world.bring(b"print()")
    request = a_request(role={"milli_gpu": 2000}, snapshot=code)
    assert job_quote.quote_job(world.service, ann, request).drill_text == (
        "It is stopped once after its first save, while nobody waits, to see that it goes on."
    )
    jobs.submit(world.service, ann, request, key=None)
    for _ in range(60):
        world.pass_time(1000)
    saved = models.CheckpointReport(
        step=200, path="checkpoints/step-200", size_bytes=1, sha256="0" * 64
    )
    first = jobs.job(world.service, ann, "digits-1")
    attempts.report_checkpoint(world.service, as_attempt(world, first), saved)
    testing = jobs.job(world.service, ann, "digits-1")
    assert testing.drill is not None
    assert (testing.drill.state, testing.drill.text) == (
        "testing",
        "Testing that this job can be stopped.",
    )
    for _ in range(60):
        world.pass_time(1000)
        again = jobs.job(world.service, ann, "digits-1")
        if again.state == "running" and len(again.attempts) > 1:
            break
    attempts.report_progress(
        world.service, as_attempt(world, again), models.ProgressReport(step=201)
    )
    shown = jobs.job(world.service, ann, "digits-1")
    assert shown.safe_to_borrow
    assert "\n  Safe to borrow.\n  Tested: stops and goes on at step 200 (" in describe(shown)
    said = job_quote.quote_job(world.service, ann, request).drill_text
    assert said.startswith("Safe to borrow: digits-1, of the same code, was stopped and went on (")
