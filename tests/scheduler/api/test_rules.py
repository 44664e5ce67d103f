"""Every route has a rule: who passes it and who does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from route_rules import CHOICE, JOB, PIPELINE, RULES, SCHEDULE, SHA, Rule
from service_world import ServiceWorld, a_request, attempt_token, done
from storages import LinkedMemory

from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.pipelines import Pipelines
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.file_storage.bucket_files import BucketFiles
from gpucommons.scheduler.notifications.preferences import Choice
from gpucommons.scheduler.notifications.settings import NotificationSettings
from gpucommons.scheduler.service import authorization, leases
from gpucommons.scheduler.service.jobs import jobs, profiles, sweeps
from gpucommons.scheduler.service.pipelines import pipelines
from gpucommons.scheduler.service.schedules import schedules

#: Routes without a rule: they say nothing about anybody.
PUBLIC = {"healthz", "livez", "readyz"}


def operations(app: FastAPI) -> dict[str, tuple[str, str]]:
    document = app.openapi()
    return {
        operation["operationId"]: (method.upper(), path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def test_every_route_is_in_the_table_and_has_a_rule(app: FastAPI) -> None:
    found = operations(app)
    assert set(found) - PUBLIC == set(RULES)
    modules = [getattr(authorization, name) for name in authorization.__all__]
    for name in RULES:
        assert sum(callable(getattr(one, name, None)) for one in modules) >= 1, name


def test_no_route_is_outside_the_document(app: FastAPI) -> None:
    routes = [route for route in app.routes if isinstance(route, APIRoute)]
    assert len(routes) > len(RULES)
    hidden = [route for route in routes if not route.include_in_schema]
    # A balancer's HEAD of a page that GET describes.
    assert {(route.path, *route.methods) for route in hidden} == {
        ("/healthz", "HEAD"),
        ("/livez", "HEAD"),
        ("/readyz", "HEAD"),
    }


@pytest.fixture
def storage() -> LinkedMemory:
    return LinkedMemory()


@pytest.fixture
def world(tmp_path: Path, storage: LinkedMemory) -> ServiceWorld:
    """One whose jobs run away from their notebooks."""
    return ServiceWorld(tmp_path, files=BucketFiles(storage=storage))


@pytest.fixture
def send(
    world: ServiceWorld, http: httpx.AsyncClient, storage: LinkedMemory
) -> Callable[[Rule, str | None], Any]:
    """Call a route with somebody's token, where a job, a paused job and a notebook exist."""
    ann = world.principal("ann")
    assert world.bring(b"") == SHA
    world.script = Script(run_ms=10)
    jobs.submit(world.service, ann, a_request(name="done"), key=None)
    world.pass_time(1000)
    world.script = Script(lines=("hello",))
    for name in ("digits", "paused"):
        jobs.submit(world.service, ann, a_request(name=name, snapshot=SHA), key=None)
    world.pass_time(1000)
    done(jobs.pause(world.service, ann, "paused-1"))
    world.pass_time(1000)
    nightly = models.ScheduleRequest.model_validate(SCHEDULE)
    schedules.put_schedule(world.service, ann, "ann", "nightly", nightly)
    of_team = models.ProfileRequest()
    profiles.put_profile(world.service, world.principal("ada"), "vision", "plain", of_team)
    search = {
        "space": {"lr": [1, 2, 3]},
        "objective": {"metric": "loss"},
        "budget": {"trials": 2},
        "sampler": "grid",
    }
    for base, what in (("many", {"given": [{"lr": 1}]}), ("search", search)):
        asked = models.SweepRequest.model_validate({"job": {**JOB, "name": base}, **what})
        sweeps.submit_sweep(world.service, ann, asked, key=None)
    run = models.PipelineRequest.model_validate(PIPELINE)
    for _ in range(2):
        pipelines.submit_pipeline(world.service, ann, run, key=None)
    every = models.StepRef()
    pipelines.cancel_pipeline(world.service, ann, "ann", "nightly-2", every)
    Pipelines(world.service, epoch=lambda: world.loop.epoch).step()
    ask = models.LeaseRequest(user="ann", milli_gpu=500)
    lease = done(leases.acquire(world.service, world.hub_service, ask, key=None))
    done(leases.started(world.service, world.hub_service, lease.id, models.StartedReport()))
    mail = {"host": "smtp", "sender": "gpu@example.org", "domains": ["*"]}
    outside = NotificationSettings.model_validate({"mail": mail, "webhooks": {}})
    object.__setattr__(world.service, "notifications", outside)
    world.store.notifications.choose(CHOICE, before=Choice(owner=CHOICE.owner))
    running = jobs.job(world.service, ann, "digits-1")
    storage.fill({f"attempts/{running.attempts[0].id}/checkpoints/step-1/a": b"1"})

    async def call(rule: Rule, who: str | None) -> httpx.Response:
        token = attempt_token(running.attempts[0].id) if who == "attempt" else who
        prefix = "" if rule.path == "/metrics" else "/v1"
        return await http.request(
            rule.method,
            prefix + rule.path.replace("{lease}", lease.id),
            json=rule.body,
            content=rule.content,
            params=rule.query,
            headers={} if token is None else {"Authorization": f"token {token}"},
        )

    return call


@pytest.mark.parametrize("name", sorted(RULES))
async def test_who_may_passes(name: str, send: Callable[[Rule, str | None], Any]) -> None:
    for who in RULES[name].passes[:1]:
        response = await send(RULES[name], who)
        assert response.is_success, (who, response.text)


@pytest.mark.parametrize(
    ("name", "who"), [(name, who) for name, rule in RULES.items() for who in rule.passes[1:]]
)
async def test_others_who_may_pass_too(
    name: str, who: str, send: Callable[[Rule, str | None], Any]
) -> None:
    response = await send(RULES[name], who)
    assert response.is_success, response.text


@pytest.mark.parametrize("name", sorted(RULES))
async def test_who_may_not_is_refused_with_a_sentence(
    name: str, send: Callable[[Rule, str | None], Any]
) -> None:
    rule = RULES[name]
    assert rule.refused
    for who, status in rule.refused.items():
        response = await send(rule, who)
        assert response.status_code == status, (who, response.text)
        assert len(models.ErrorView.model_validate_json(response.content).message) > 10
    for who in (None, "no-such-token", "gca-someone.else"):
        response = await send(rule, who)
        assert response.status_code == 401, (who, response.text)
