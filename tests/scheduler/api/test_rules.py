"""Every route has a rule: who passes it and who does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from service_world import METRICS_TOKEN, ServiceWorld, a_request, attempt_token, done
from storages import LinkedMemory

from gpucommons.scheduler import models
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.service import authorization, leases
from gpucommons.scheduler.service.jobs import jobs, schedules, sweeps
from gpucommons.scheduler.storage.bucket_files import BucketFiles

#: Routes without a rule: they say nothing about anybody.
PUBLIC = {"healthz", "livez"}


@dataclass(frozen=True)
class Rule:
    """How a route is called, and with whose token it answers what."""

    method: str
    path: str
    passes: tuple[str, ...]
    refused: dict[str, int]
    body: Any = None
    content: bytes | None = None
    query: dict[str, Any] = field(default_factory=dict)


JOB = {"name": "digits", "roles": [{"command": ["true"]}]}
SWEEP = {"job": JOB, "given": [{"lr": 0.1}]}
SCHEDULE = {"schedule": "0 2 * * *", "job": JOB}
LEASE = {"user": "ann", "milli_gpu": 250}
SHA = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#: Of an attempt, and of a token without any right of ours.
NOBODY = {"attempt": 403, "plain-token": 403}
NOT_ATTEMPT = {"ann-token": 403, "root-token": 403, "hub-token": 403, "plain-token": 403}
STEERERS = ("ann-token", "ada-token", "root-token")
NOT_STEERERS = NOBODY | {"ann-reads": 403, "alf-token": 403, "bob-token": 404}
NOT_ADMIN = NOBODY | {"ann-token": 403, "ada-token": 403, "hub-token": 403, "culler-token": 403}

RULES: dict[str, Rule] = {
    "whoami": Rule("GET", "/whoami", ("ann-reads", "hub-token"), NOBODY),
    "pools": Rule("GET", "/pools", ("ann-reads", "hub-token"), NOBODY),
    "nodes": Rule("GET", "/nodes", ("ann-reads", "hub-token"), NOBODY),
    "teams": Rule("GET", "/teams", ("ann-reads", "hub-token"), NOBODY),
    "set_node_state": Rule(
        "PUT", "/nodes/n1/state", ("root-token",), NOT_ADMIN, body={"state": "ready"}
    ),
    "put_config": Rule("PUT", "/config", ("root-token",), NOT_ADMIN, body={}),
    "check_config": Rule("POST", "/config/check", ("root-token",), NOT_ADMIN, body={}),
    "get_config": Rule("GET", "/config", ("root-token",), NOT_ADMIN),
    "set_quotas": Rule(
        "PUT",
        "/quotas",
        ("root-token",),
        NOT_ADMIN,
        body={"changes": [{"team": "vision", "pool": "gpu", "quota": {}}], "dry_run": True},
    ),
    "replay": Rule("POST", "/replay", ("root-token",), NOT_ADMIN, body={"days": 1}),
    "put_snapshot": Rule(
        "PUT",
        f"/snapshots/{SHA}",
        ("ann-token", "root-token"),
        NOBODY | {"ann-reads": 403, "hub-token": 403},
        content=b"",
    ),
    "submit": Rule(
        "POST", "/jobs", ("ann-token",), NOBODY | {"ann-reads": 403, "hub-token": 403}, body=JOB
    ),
    "environments": Rule(
        "GET",
        "/environments",
        ("ann-token", "root-token"),
        NOBODY | {"ann-reads": 403, "hub-token": 403},
    ),
    "quote_job": Rule(
        "POST", "/quote", ("ann-token",), NOBODY | {"ann-reads": 403, "culler-token": 403}, body=JOB
    ),
    "advise": Rule(
        "POST",
        "/advise",
        ("ann-token", "root-token"),
        NOBODY | {"ann-reads": 403, "hub-token": 403, "culler-token": 403},
        body={
            "network": {"kind": "unknown"},
            "batch": 8,
            "steps": 10,
            "team": "vision",
        },
    ),
    "jobs": Rule("GET", "/jobs", ("ann-reads", "bob-token"), NOBODY),
    "job": Rule(
        "GET",
        "/jobs/digits-1",
        ("ann-reads", "alf-token", "root-token"),
        NOBODY | {"bob-token": 404, "hub-token": 404},
    ),
    "why": Rule(
        "GET",
        "/jobs/digits-1/why",
        ("ann-reads", "alf-token", "root-token"),
        NOBODY | {"bob-token": 404, "hub-token": 404},
    ),
    "cancel": Rule(
        "POST",
        "/jobs/digits-1/cancel",
        ("ann-token",),
        NOBODY
        | {
            "ada-reads": 403,
            "ann-reads": 403,
            "alf-token": 403,
            "bob-token": 404,
            "culler-token": 404,
        },
    ),
    "pause": Rule(
        "POST",
        "/jobs/digits-1/pause",
        ("ada-token",),
        NOBODY | {"ada-reads": 403, "ann-reads": 403, "alf-token": 403, "bob-token": 404},
    ),
    "resume": Rule(
        "POST",
        "/jobs/paused-1/resume",
        ("root-token",),
        NOBODY | {"ada-reads": 403, "ann-reads": 403, "alf-token": 403, "bob-token": 404},
    ),
    "resize_job": Rule(
        "POST",
        "/jobs/paused-1/resize",
        ("root-token",),
        NOBODY | {"ada-reads": 403, "ann-reads": 403, "alf-token": 403, "bob-token": 404},
        body={"workers": 1},
    ),
    "again": Rule(
        "POST",
        "/jobs/digits-1/again",
        ("ann-token", "ada-token", "root-token"),
        NOBODY | {"ann-reads": 403, "alf-token": 403, "bob-token": 404},
    ),
    "schedules": Rule("GET", "/schedules", ("ann-reads", "bob-token"), NOBODY),
    "schedule": Rule(
        "GET",
        "/schedules/ann/nightly",
        ("ann-reads", "alf-token", "root-token"),
        NOBODY | {"bob-token": 404, "hub-token": 404},
    ),
    "put_schedule": Rule(
        "PUT",
        "/schedules/ann/nightly",
        ("ann-token",),
        NOBODY | {"ann-reads": 403, "alf-token": 403, "root-token": 403, "hub-token": 403},
        body=SCHEDULE,
    ),
    "suspend_schedule": Rule(
        "POST",
        "/schedules/ann/nightly/suspend",
        ("ann-token", "ada-token", "root-token"),
        NOBODY | {"ann-reads": 403, "alf-token": 403, "bob-token": 404},
    ),
    "resume_schedule": Rule(
        "POST",
        "/schedules/ann/nightly/resume",
        ("ann-token", "ada-token", "root-token"),
        NOBODY | {"ann-reads": 403, "alf-token": 403, "bob-token": 404},
    ),
    "drop_schedule": Rule(
        "DELETE",
        "/schedules/ann/nightly",
        ("ann-token", "ada-token", "root-token"),
        NOBODY | {"ann-reads": 403, "alf-token": 403, "bob-token": 404},
    ),
    "submit_sweep": Rule(
        "POST", "/sweeps", ("ann-token",), NOBODY | {"ann-reads": 403, "hub-token": 403}, body=SWEEP
    ),
    "sweeps": Rule("GET", "/sweeps", ("ann-reads", "bob-token"), NOBODY),
    "sweep": Rule("GET", "/sweeps/many-1", ("ann-reads", "alf-token"), NOBODY | {"bob-token": 404}),
    "stop_sweep": Rule("POST", "/sweeps/many-1/stop", STEERERS, NOT_STEERERS),
    "add_to_budget": Rule(
        "POST", "/sweeps/search-1/budget", STEERERS, NOT_STEERERS, body={"trials": 1}
    ),
    "log": Rule(
        "GET", "/jobs/digits-1/log", ("ann-reads", "alf-token"), NOBODY | {"bob-token": 404}
    ),
    "curve": Rule(
        "GET", "/jobs/digits-1/curve", ("ann-reads", "alf-token"), NOBODY | {"bob-token": 404}
    ),
    "job_use": Rule(
        "GET", "/jobs/digits-1/use", ("ann-reads", "alf-token"), NOBODY | {"bob-token": 404}
    ),
    "report_progress": Rule(
        "POST",
        "/attempt/progress",
        ("attempt",),
        NOT_ATTEMPT,
        body={"step": 1},
    ),
    "report_trainer_status": Rule(
        "POST",
        "/attempt/trainer-status",
        ("attempt",),
        NOT_ATTEMPT,
        body={"trainerStatus": {"progressPercentage": 5}},
    ),
    "report_curve": Rule(
        "POST",
        "/attempt/curve",
        ("attempt",),
        NOT_ATTEMPT,
        body={"points": [{"step": 1, "metrics": {"loss": 0.5}}]},
    ),
    "report_checkpoint": Rule(
        "POST",
        "/attempt/checkpoints",
        ("attempt",),
        NOT_ATTEMPT,
        body={"step": 1, "path": "checkpoints/step-1", "size_bytes": 1, "sha256": SHA},
    ),
    "report_finished": Rule("POST", "/attempt/finished", ("attempt",), NOT_ATTEMPT),
    "attempt_orders": Rule("GET", "/attempt/orders", ("attempt",), NOT_ATTEMPT),
    "attempt_inputs": Rule("GET", "/attempt/inputs", ("attempt",), NOT_ATTEMPT),
    "attempt_snapshot": Rule("GET", "/attempt/snapshot", ("attempt",), NOT_ATTEMPT),
    "attempt_uploads": Rule(
        "POST",
        "/attempt/uploads",
        ("attempt",),
        NOT_ATTEMPT,
        body={"folder": "results", "files": [{"path": "a", "size_bytes": 1}]},
    ),
    "report_kept": Rule(
        "POST",
        "/attempt/kept",
        ("attempt",),
        NOT_ATTEMPT,
        body={"files": 0, "size_bytes": 0},
    ),
    "report_tree": Rule("POST", "/attempt/tree", ("attempt",), NOT_ATTEMPT, body={}),
    "attempt_saving": Rule("GET", "/attempt/saving", ("attempt",), NOT_ATTEMPT),
    "results": Rule(
        "GET",
        "/jobs/done-1/results",
        ("ann-token", "ada-token", "root-token"),
        NOBODY | {"ada-reads": 403, "ann-reads": 403, "alf-token": 403, "bob-token": 404},
    ),
    "offers": Rule(
        "GET",
        "/offers",
        ("ann-reads", "hub-token", "root-token"),
        NOBODY | {"bob-token": 403, "culler-token": 403},
        query={"user": "ann"},
    ),
    "acquire": Rule(
        "POST",
        "/leases/acquire",
        ("hub-token",),
        NOBODY | {"ann-token": 403, "root-token": 403, "culler-token": 403},
        body=LEASE | {"server_name": "second"},
    ),
    "wait_in_line": Rule(
        "POST",
        "/leases",
        ("ann-token", "hub-token"),
        NOBODY | {"ann-reads": 403, "bob-token": 403, "root-token": 403, "culler-token": 403},
        body=LEASE | {"server_name": "second"},
    ),
    "leases": Rule("GET", "/leases", ("ann-reads", "bob-token", "culler-token"), NOBODY),
    "my_lease": Rule(
        "GET", "/lease", ("ann-reads",), NOBODY | {"bob-token": 404, "hub-token": 403}
    ),
    "lease": Rule(
        "GET",
        "/leases/{lease}",
        ("ann-reads", "alf-token", "hub-token", "culler-token", "root-token"),
        NOBODY | {"bob-token": 404},
    ),
    "why_lease": Rule(
        "GET",
        "/leases/{lease}/why",
        ("ann-reads", "alf-token", "hub-token", "culler-token", "root-token"),
        NOBODY | {"bob-token": 404},
    ),
    "started": Rule(
        "POST",
        "/leases/{lease}/started",
        ("hub-token",),
        NOBODY | {"ann-token": 403, "root-token": 403, "culler-token": 403},
        body={},
    ),
    "end_lease": Rule(
        "POST",
        "/leases/{lease}/end",
        ("culler-token", "hub-token"),
        NOBODY | {"ann-token": 403, "alf-token": 403, "bob-token": 404, "ann-reads": 403},
        body={"why": "stopped"},
    ),
    "keep": Rule(
        "POST",
        "/leases/{lease}/keep",
        ("ann-token",),
        NOBODY | {"ann-reads": 403, "alf-token": 403, "bob-token": 404, "culler-token": 403},
        body={},
    ),
    "drop": Rule(
        "POST",
        "/leases/{lease}/drop",
        ("ann-token",),
        NOBODY | {"ann-reads": 403, "alf-token": 403, "bob-token": 404, "hub-token": 403},
    ),
    "hibernate": Rule(
        "POST",
        "/leases/{lease}/hibernate",
        (),
        NOBODY
        | {
            "ann-reads": 403,
            "alf-token": 403,
            "bob-token": 404,
            "hub-token": 403,
            # They may, and its server has not said that it can.
            "ann-token": 409,
            "root-token": 409,
            "culler-token": 409,
        },
        body={},
    ),
    "choose_on_idle": Rule(
        "PUT",
        "/leases/{lease}/on-idle",
        ("ann-token",),
        NOBODY | {"ann-reads": 403, "alf-token": 403, "bob-token": 404, "culler-token": 403},
        body={"on_idle": "cull"},
    ),
    "reclaim": Rule(
        "POST",
        "/leases/{lease}/reclaim",
        ("ada-token",),
        NOBODY
        | {
            "ada-reads": 403,
            "ann-token": 403,
            "alf-token": 403,
            "bob-token": 404,
            "culler-token": 403,
        },
        body={"force": True, "reason": "needed"},
    ),
    "resize": Rule(
        "POST",
        "/leases/{lease}/resize",
        ("root-token",),
        NOBODY
        | {
            "ann-token": 403,
            "ada-token": 403,
            "alf-token": 403,
            "bob-token": 404,
            "hub-token": 403,
            "culler-token": 403,
        },
        body={"memory_mib": 10_000},
    ),
    "report_activity": Rule(
        "PUT",
        "/leases/{lease}/activity",
        ("ann-token",),
        NOBODY
        | {
            "ann-reads": 403,
            "alf-token": 403,
            "root-token": 403,
            "bob-token": 404,
            "hub-token": 403,
        },
        body={},
    ),
    "report_kept_kernels": Rule(
        "PUT",
        "/leases/{lease}/kept",
        ("ann-token",),
        NOBODY
        | {
            "ann-reads": 403,
            "alf-token": 403,
            "ada-token": 403,
            "root-token": 403,
            "bob-token": 404,
            "hub-token": 403,
            "culler-token": 403,
        },
        body={"kernels": 2, "kernel_bytes": 1 << 30, "until_ms": 1_800_000_000_000},
    ),
    "activities": Rule(
        "GET",
        "/activities",
        ("culler-token", "root-token", "ada-token"),
        NOBODY | {"ann-token": 403, "hub-token": 403},
    ),
    "activity": Rule(
        "GET",
        "/leases/{lease}/activity",
        ("culler-token", "root-token", "ada-token"),
        NOBODY | {"ann-token": 403, "hub-token": 403, "bob-token": 404},
    ),
    "report_idle": Rule(
        "PUT",
        "/leases/{lease}/idle",
        ("culler-token",),
        NOBODY | {"ann-token": 403, "hub-token": 403, "root-token": 403},
        body={},
    ),
    "events": Rule("GET", "/events", ("ann-reads", "bob-token"), NOBODY),
    "report": Rule(
        "GET", "/report", ("ann-reads", "bob-token"), NOBODY, query={"from_ms": 0, "to_ms": 1}
    ),
    "metrics": Rule(
        "GET",
        "/metrics",
        ("root-token", "prometheus-token", METRICS_TOKEN),
        NOBODY | {"ann-token": 403, "hub-token": 403},
    ),
}


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
    for name in RULES:
        assert callable(getattr(authorization, name)), name


def test_no_route_is_outside_the_document(app: FastAPI) -> None:
    routes = [route for route in app.routes if isinstance(route, APIRoute)]
    assert len(routes) > len(RULES)
    hidden = [route for route in routes if not route.include_in_schema]
    # A balancer's HEAD of a page that GET describes.
    assert {(route.path, *route.methods) for route in hidden} == {
        ("/healthz", "HEAD"),
        ("/livez", "HEAD"),
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
    search = {
        "space": {"lr": [1, 2]},
        "objective": {"metric": "loss"},
        "budget": {"trials": 2},
        "sampler": "grid",
    }
    for base, what in (("many", {"given": [{"lr": 1}]}), ("search", search)):
        asked = models.SweepRequest.model_validate({"job": {**JOB, "name": base}, **what})
        sweeps.submit_sweep(world.service, ann, asked, key=None)
    ask = models.LeaseRequest(user="ann", milli_gpu=500)
    lease = done(leases.acquire(world.service, world.hub_service, ask, key=None))
    done(leases.started(world.service, world.hub_service, lease.id, models.StartedReport()))
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
