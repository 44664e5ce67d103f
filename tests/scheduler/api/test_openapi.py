"""The OpenAPI document is true: schemathesis sends what it allows, and worse."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from service_world import ServiceWorld, a_request, an_app, attempt_token

from gpucommons.scheduler.api import errors
from gpucommons.scheduler.api.routes import attempts, history, jobs, leases
from gpucommons.scheduler.api.routes import cluster as admin
from gpucommons.scheduler.service.jobs.jobs import job, submit

#: More with GPUCOMMONS_EXAMPLES=200.
EXAMPLES = int(os.environ.get("GPUCOMMONS_EXAMPLES", "4"))
TOKENS = ("root-token", "ann-token", "hub-token")
ROUTERS = (admin.router, attempts.router, jobs.router, leases.router, history.router)
OPERATIONS = sorted(route.name for router in ROUTERS for route in router.routes)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> ServiceWorld:
    world = ServiceWorld(Path(tmp_path_factory.mktemp("openapi")))
    submit(world.service, world.principal("ann"), a_request(), key=None)
    world.pass_time(1000)
    return world


@pytest.fixture(scope="module")
def app(world: ServiceWorld) -> FastAPI:
    return an_app(world)


@pytest.fixture(scope="module")
def document(app: FastAPI) -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_asgi("/v1/openapi.json", app)


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_answer_is_documented_and_none_is_a_failure(
    operation: str,
    mode: GenerationMode,
    document: schemathesis.BaseSchema,
    world: ServiceWorld,
) -> None:
    found = document.find_operation_by_id(operation)
    running = job(world.service, world.admin, "digits-1").attempts[0].id

    @given(case=found.as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: schemathesis.Case) -> None:
        if "wait_s" in (case.query or {}):
            case.query["wait_s"] = "0"
        for token in (*TOKENS, attempt_token(running)):
            headers = dict(case.headers or {})
            response = case.call(headers={**headers, "Authorization": f"token {token}"})
            assert response.status_code < 500, response.text
            checks = [
                status_code_conformance,
                content_type_conformance,
                response_schema_conformance,
            ]
            case.validate_response(response, checks=checks)

    ask()


def test_every_operation_may_refuse_with_the_one_view_of_errors(app: FastAPI) -> None:
    document = app.openapi()
    refusals = [
        answer["content"]["application/json"]["schema"]
        for methods in document["paths"].values()
        for operation in methods.values()
        for status, answer in operation["responses"].items()
        if int(status) in errors.REFUSALS
    ]
    count = sum(len(methods) for methods in document["paths"].values())
    assert refusals == [{"$ref": "#/components/schemas/ErrorView"}] * (count * len(errors.REFUSALS))
    assert set(document["components"]["schemas"]["ErrorView"]["required"]) >= {"error", "message"}
