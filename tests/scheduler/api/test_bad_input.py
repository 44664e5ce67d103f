"""Whatever is sent: a sentence, the right status, and nothing changed."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from service_world import ServiceWorld

from gpucommons.gpu.log_lines import REQUEST
from gpucommons.scheduler.api.limits.body_limit import MAX_JSON_BYTES
from gpucommons.scheduler.api.routes import cluster as cluster_module
from gpucommons.scheduler.api.routes import jobs as jobs_module
from gpucommons.scheduler.models import ErrorView

ANN = {"Authorization": "token ann-token"}
ROOT = {"Authorization": "token root-token"}
HUB = {"Authorization": "token hub-token"}


def a_job(**changes: Any) -> dict[str, Any]:
    role = {"command": ["true"], **changes.pop("role", {})}
    return {"name": "digits", "roles": [role], **changes}


JOBS: list[tuple[dict[str, Any], int, str]] = [
    (a_job(name="<b>x</b>"), 422, "name:"),
    (a_job(name="Ümlaut"), 422, "name:"),
    (a_job(name="a\x1b[31m"), 422, "name:"),
    (a_job(name="x" * 51), 422, "name:"),
    (a_job(surprise=1), 422, "surprise:"),
    (a_job(roles=[]), 422, "roles:"),
    (a_job(role={"count": 0}), 422, "workers of the first role (roles.0.count):"),
    (a_job(role={"count": 1.5}), 422, "workers of the first role (roles.0.count):"),
    (a_job(role={"count": True}), 422, "workers of the first role (roles.0.count):"),
    (a_job(role={"milli_gpu": -1}), 422, "GPUs per worker of the first role (roles.0.milli_gpu):"),
    (
        a_job(role={"milli_gpu": 10**30}),
        422,
        "GPUs per worker of the first role (roles.0.milli_gpu):",
    ),
    (
        a_job(role={"milli_gpu": "1000"}),
        422,
        "GPUs per worker of the first role (roles.0.milli_gpu):",
    ),
    (a_job(role={"milli_gpu": 1500}), 422, "share of one GPU or whole GPUs"),
    (a_job(role={"milli_gpu": 8000}), 422, "the largest has 4"),
    (a_job(role={"milli_gpu": 1000, "count": 5}), 422, "5 GPUs asked by all workers together"),
    (a_job(role={"milli_gpu": 1000, "gpu_kind": "H100"}), 422, "no GPU of kind 'H100'"),
    (a_job(role={"cpu_milli": 1_000_000}), 422, "cores asked for a worker"),
    (a_job(role={"memory_mib": 16_000_000}), 422, "GiB of memory asked for a worker"),
    (a_job(role={"command": []}), 422, "command of the first role (roles.0.command):"),
    (a_job(role={"command": ["a\x00b"]}), 422, "command of the first role (roles.0.command.0):"),
    (a_job(min_workers=3, max_workers=2), 422, "min_workers 3 is more than max_workers 2"),
    (a_job(min_workers=2), 422, "must lie between"),
    (a_job(team="moon"), 404, "There is no team 'moon'"),
    (a_job(team="nlp"), 403, "not in team nlp"),
    (a_job(pools=["moon"]), 404, "There is no pool 'moon'"),
    (a_job(pools=["cpu"], role={"milli_gpu": 500}), 422, "it has no GPUs"),
    (a_job(after=["nothing-1"]), 404, "nothing-1"),
    (a_job(after=["../../etc"]), 422, "after.0:"),
    (a_job(snapshot="0" * 64), 422, "uploaded first"),
    (a_job(snapshot="zz"), 422, "snapshot:"),
    (a_job(working_dir="/etc"), 422, "below its folder"),
    (a_job(working_dir="a/../../b"), 422, "below its folder"),
    (a_job(results_to="../x"), 422, "below its folder"),
    (a_job(env={"LD_PRELOAD": "x"}), 422, "LD_PRELOAD may not be set"),
    (a_job(env={"CUDA_VISIBLE_DEVICES": "0"}), 422, "may not be set"),
    (a_job(secrets={"GPUCOMMONS_TOKEN": "x"}), 422, "may not be set"),
    (a_job(env={"A B": "x"}), 422, "env.A B"),
    (a_job(env={"A": "x"}, secrets={"A": "x"}), 422, "both in env and in secrets"),
    (a_job(priority="urgent"), 422, "priority:"),
    (a_job(max_run_s=0), 422, "max_run_s:"),
    (a_job(parent="not-an-id"), 422, "parent:"),
    (a_job(parent="00000000-0000-7000-8000-000000000000"), 404, "no such"),
]


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        yield client


def sentence(response: httpx.Response) -> str:
    return ErrorView.model_validate_json(response.content).message


@pytest.mark.parametrize(("body", "status", "words"), JOBS)
async def test_a_bad_job_is_refused_and_nothing_is_stored(
    world: ServiceWorld, http: httpx.AsyncClient, body: dict[str, Any], status: int, words: str
) -> None:
    before = world.store.last_event_number()
    response = await http.post("/v1/jobs", json=body, headers=ANN)
    assert response.status_code == status, response.text
    assert words in sentence(response)
    assert world.store.last_event_number() == before
    assert world.cluster.workloads == {}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff\xfe",
        b'{"name": NaN}',
        b'{"name": "\\ud800"}',
        b'{"env": {"\\ud800": "x"}}',
        b"[" * 100_000,
        b'{"not_before_ms": ' + b"9" * 10_000 + b"}",
    ],
)
async def test_what_is_no_json_object_is_refused(http: httpx.AsyncClient, content: bytes) -> None:
    headers = ANN | {"Content-Type": "application/json"}
    response = await http.post("/v1/jobs", content=content, headers=headers)
    assert response.status_code == 422
    assert sentence(response)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/nothing", 404),
        ("GET", "/", 404),
        ("GET", "/docs", 404),
        ("DELETE", "/v1/jobs", 405),
        ("POST", "/v1/whoami", 405),
        ("GET", "/v1/jobs/..%2F..%2Fetc", 422),
        ("GET", "/v1/jobs/%00", 422),
        ("GET", "/v1/jobs?limit=0", 422),
        ("GET", "/v1/jobs?limit=1e9", 422),
        ("GET", "/v1/jobs?cursor=%0a", 422),
        ("GET", "/v1/jobs?state=odd", 422),
        ("GET", "/v1/jobs/x/log?offset=-1", 422),
        ("GET", "/v1/jobs/x/log?wait_s=nan", 422),
        ("GET", "/v1/jobs/x/log?wait_s=3600", 422),
        ("GET", "/v1/jobs/x/results?file=%00", 422),
        ("GET", "/v1/jobs/x/results?file=a%0a%00b", 422),
        ("GET", "/v1/jobs/x/results?file=a%0ab", 404),
        ("GET", "/v1/events?kinds=A;drop", 422),
        ("GET", "/v1/events?after=-1", 422),
        ("GET", "/v1/leases/1", 422),
        ("GET", "/v1/leases/00000000-0000-7000-8000-000000000000", 404),
        ("GET", "/v1/report", 422),
        ("GET", "/v1/report?from_ms=9&to_ms=1", 422),
    ],
)
async def test_a_bad_address_is_refused(
    http: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    response = await http.request(method, path, headers=ANN)
    assert response.status_code == status, response.text
    assert sentence(response)
    assert response.headers["X-Content-Type-Options"] == "nosniff"


async def test_an_answer_says_the_number_of_its_request(http: httpx.AsyncClient) -> None:
    given = await http.get("/v1/report", headers={**ANN, "X-Request-ID": "proxy-7:a.b"})
    assert (given.status_code, given.headers["X-Request-ID"]) == (422, "proxy-7:a.b")
    seen = {given.headers["X-Request-ID"]}
    for strange in ("", "a b", "x" * 65, "<script>", "a\tb"):
        answer = await http.get("/v1/pools", headers={**ANN, "X-Request-ID": strange})
        seen.add(answer.headers["X-Request-ID"])
        assert answer.headers["X-Request-ID"].isalnum()
    assert len(seen) == 6  # each has its own


async def test_what_is_logged_for_a_request_knows_its_number(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: list[str] = []

    def fails(*_: object) -> None:
        known.append(REQUEST.get())  # in the thread in which it is answered
        raise RuntimeError

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            known.append(REQUEST.get())

    monkeypatch.setattr(cluster_module.cluster, "pools", fails)
    handler = Keeping()
    logging.getLogger("gpucommons.scheduler.api").addHandler(handler)
    try:
        failed = await http.get("/v1/pools", headers={**ANN, "X-Request-ID": "r-1"})
    finally:
        logging.getLogger("gpucommons.scheduler.api").removeHandler(handler)
    assert known == ["r-1", "r-1"]
    # It is answered outside of what answers all others.
    assert (failed.status_code, failed.headers["X-Request-ID"]) == (500, "r-1")
    assert failed.headers["Cache-Control"] == "no-store"
    assert failed.headers["X-Content-Type-Options"] == "nosniff"
    assert failed.headers["Content-Security-Policy"].startswith("default-src 'none'")
    own = await http.get("/v1/pools", headers=ANN)
    assert (own.status_code, own.headers["X-Request-ID"]) == (500, known[-1])


async def test_a_refusal_does_not_repeat_what_was_sent(http: httpx.AsyncClient) -> None:
    body = a_job(env={"TOKEN": ["geheim"]}, role={"command": "geheim"})
    response = await http.post("/v1/jobs", json=body, headers=ANN)
    assert response.status_code == 422
    assert "geheim" not in response.text


async def test_a_body_beyond_the_cap_is_refused_while_it_arrives(http: httpx.AsyncClient) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b" " * 65536

    headers = ANN | {"Content-Type": "application/json"}
    response = await http.post("/v1/jobs", content=endless(), headers=headers)
    assert response.status_code == 413
    assert sentence(response) == "The body is larger than 1 MiB: send less."
    announced = await http.post("/v1/jobs", content=b" " * (MAX_JSON_BYTES + 1), headers=headers)
    assert announced.status_code == 413


async def test_an_upload_is_checked_and_capped(
    world: ServiceWorld, http: httpx.AsyncClient
) -> None:
    sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    path = f"/v1/snapshots/{sha256}"
    wrong = await http.put(path, content=b"hell", headers=ANN)
    assert wrong.status_code == 422
    assert not world.service.snapshots.has(sha256)
    large = await http.put(path, content=b"x" * ((2 << 20) + 1), headers=ANN)
    assert large.status_code == 413
    for _ in range(2):
        right = await http.put(path, content=b"hello", headers=ANN)
        assert right.json() == {"sha256": sha256, "size_bytes": 5}
    assert world.service.snapshots.path(sha256).read_bytes() == b"hello"


async def test_one_user_uploads_so_many_at_once(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs_module, "MAX_UPLOADING", 1)
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        begun.set()
        await go_on.wait()
        yield b"hell"
        yield b"o"

    path = f"/v1/snapshots/{hashlib.sha256(b'hello').hexdigest()}"
    other = f"/v1/snapshots/{hashlib.sha256(b'more').hexdigest()}"
    first = asyncio.create_task(http.put(path, content=slow(), headers=ANN))
    await begun.wait()
    second = await http.put(other, content=b"more", headers=ANN)
    assert second.status_code == 429
    assert sentence(second).startswith("1 uploads of yours are under way already")
    go_on.set()
    assert (await first).json()["size_bytes"] == 5
    assert (await http.put(other, content=b"more", headers=ANN)).status_code == 200


async def test_one_user_uploads_so_much_within_a_day(
    world: ServiceWorld, http: httpx.AsyncClient
) -> None:
    world.service.uploads.most_bytes = 8
    hello, more = (f"/v1/snapshots/{hashlib.sha256(c).hexdigest()}" for c in (b"hello", b"more"))
    for _ in range(2):  # what is there already is not stored again
        assert (await http.put(hello, content=b"hello", headers=ANN)).status_code == 200
    read = []

    async def body() -> AsyncIterator[bytes]:
        read.append(b"more")
        yield b"more"

    refused = await http.put(more, content=body(), headers=ANN | {"Content-Length": "4"})
    assert refused.status_code == 429
    assert read == []
    assert sentence(refused).startswith("ann has uploaded as many new files")
    assert not world.service.snapshots.has(more.rpartition("/")[2])
    bob = {"Authorization": "token bob-token"}
    assert (await http.put(more, content=b"more", headers=bob)).status_code == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"user": "ann", "milli_gpu": 0}, 422),
        ({"user": "a/../b", "milli_gpu": 500}, 422),
        ({"user": "ann", "milli_gpu": 500, "server_name": "a b"}, 422),
        ({"user": "ann", "milli_gpu": 500, "server_name": "."}, 422),
        ({"user": "ann", "milli_gpu": 500, "server_name": ".."}, 422),
        ({"user": "ann", "milli_gpu": 333}, 422),
        ({"user": "ann", "milli_gpu": 4000}, 422),
        ({"user": "eve", "milli_gpu": 500}, 403),
        ({"user": "ann", "milli_gpu": 500, "team": "nlp"}, 403),
        ({"user": "ann", "milli_gpu": 500, "team": "moon"}, 404),
        ({"user": "ann", "milli_gpu": 500, "pool": "moon"}, 404),
    ],
)
async def test_a_bad_lease_is_refused_and_nothing_is_stored(
    world: ServiceWorld, http: httpx.AsyncClient, body: dict[str, Any], status: int
) -> None:
    for path in ("/v1/leases/acquire", "/v1/leases"):
        response = await http.post(path, json=body, headers=HUB)
        assert response.status_code == status, response.text
        assert sentence(response)
    assert world.cluster.workloads == {}


@pytest.mark.parametrize("metric", ["NaN", "Infinity", "-Infinity", "null", '"1"'])
async def test_numbers_that_json_has_not_are_refused(http: httpx.AsyncClient, metric: str) -> None:
    headers = ANN | {"Content-Type": "application/json"}
    body = f'{{"step": 1, "metrics": {{"loss": {metric}}}}}'
    response = await http.post("/v1/attempt/progress", content=body, headers=headers)
    assert response.status_code in (403, 422) if metric == '"1"' else response.status_code == 422


async def test_a_key_may_not_be_anything(http: httpx.AsyncClient) -> None:
    for key in ("x" * 201, "a b"):
        headers = ANN | {"Idempotency-Key": key}
        response = await http.post("/v1/jobs", json=a_job(), headers=headers)
        assert response.status_code == 422
        assert "Idempotency-Key" in sentence(response)


async def test_how_far_is_loaded_ahead_goes_with_how_many_load(http: httpx.AsyncClient) -> None:
    for loader, status in (("loader_prefetch=4", 422), ("loader_workers=3&loader_prefetch=4", 404)):
        response = await http.post(f"/v1/jobs/digits-1/again?{loader}", headers=ANN)
        assert (response.status_code, sentence(response) != "") == (status, True)
