"""A job that runs on with the token of an installation that was made anew: its page says so."""

from __future__ import annotations

import httpx
import pytest
from service_world import ServiceWorld, a_request, an_app, attempt_token, done

from gpucommons.scheduler.core.model.types import AttemptId
from gpucommons.scheduler.hub.attempt_tokens import token_of
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service.in_memory.refused_reports import RefusedReports
from gpucommons.scheduler.service.jobs import jobs

OTHER_KEY = b"another" * 4 + b"keys"


@pytest.fixture
def ann(world: ServiceWorld) -> Principal:
    return world.principal("ann")


async def report(world: ServiceWorld, token: str) -> int:
    transport = httpx.ASGITransport(app=an_app(world))
    async with httpx.AsyncClient(transport=transport, base_url="http://scheduler") as http:
        answer = await http.post(
            "/v1/attempt/progress", json={"step": 1}, headers={"Authorization": f"token {token}"}
        )
        return answer.status_code


def running(world: ServiceWorld, ann: Principal) -> tuple[str, AttemptId]:
    view = jobs.submit(world.service, ann, a_request(), key=None)
    world.pass_time(1000)
    (attempt,) = jobs.job(world.service, ann, view.id).attempts
    return view.id, AttemptId(attempt.id)


async def test_a_job_whose_token_is_of_another_key_is_said_to_be_heard_no_more(
    world: ServiceWorld, ann: Principal
) -> None:
    job, attempt = running(world, ann)
    assert jobs.job(world.service, ann, job).reports_refused is None

    assert await report(world, token_of(OTHER_KEY, attempt)) == 401

    said = jobs.job(world.service, ann, job).reports_refused
    assert said is not None
    assert "Cancel it and run it again" in said
    outsider = world.principal("bob")
    others = jobs.jobs(world.service, outsider, jobs.JobFilter(), cursor=None)
    assert said not in others.model_dump_json()


async def test_one_that_is_heard_is_not_said_to_be_refused(
    world: ServiceWorld, ann: Principal
) -> None:
    job, attempt = running(world, ann)
    await report(world, token_of(OTHER_KEY, attempt))
    assert await report(world, attempt_token(attempt)) == 200
    assert jobs.job(world.service, ann, job).reports_refused is None


async def test_a_job_that_is_over_has_nothing_to_report(
    world: ServiceWorld, ann: Principal
) -> None:
    job, attempt = running(world, ann)
    await report(world, token_of(OTHER_KEY, attempt))
    done(jobs.cancel(world.service, ann, job))
    world.pass_time(60_000)
    assert jobs.job(world.service, ann, job).reports_refused is None


def test_tokens_that_anybody_may_bring_fill_no_memory() -> None:
    refused = RefusedReports()
    refused.refused("x" * 10_000)
    for number in range(5_000):
        refused.refused(f"attempt-{number}")
    assert len(refused) == 1_000
