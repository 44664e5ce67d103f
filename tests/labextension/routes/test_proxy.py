from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from jupyter_server.auth.authorizer import Authorizer

from gpucommons.labextension.routes.proxy import TABLE

JOB_ID = "018f0000-0000-7000-8000-000000000001"
LEASE_ID = "018f0000-0000-7000-8000-0000000000aa"
REQUEST = {"name": "digits", "roles": [{"milli_gpu": 500, "command": ["python", "a.py"]}]}
READS = [
    "whoami",
    "environments",
    "pools",
    "teams",
    "jobs",
    "lease",
    "notifications",
    f"jobs/{JOB_ID}",
    f"jobs/{JOB_ID}/curve",
    "profiles",
    "schedules",
    "schedules/alice/nightly",
    "pipelines",
    "pipelines/alice/nightly-1",
    "sweeps",
    f"sweeps/{JOB_ID}",
    f"sweeps/{JOB_ID}/figures",
    f"jobs/{JOB_ID}/data",
    "advise/together",
]
WRITES = [
    ("jobs", REQUEST),
    ("quote", REQUEST),
    (f"jobs/{JOB_ID}/cancel", {}),
    (f"jobs/{JOB_ID}/pause", {}),
    (f"jobs/{JOB_ID}/resume", {}),
    (f"jobs/{JOB_ID}/resize", {"milli_gpu": 2000}),
    (f"jobs/{JOB_ID}/again", {}),
    (f"jobs/{JOB_ID}/data", {"workers": 4}),
    (f"leases/{LEASE_ID}/keep", {"minutes": 30}),
    (f"leases/{LEASE_ID}/drop", {}),
    (f"leases/{LEASE_ID}/hibernate", {}),
    (f"leases/{LEASE_ID}/park", {}),
    ("pipelines/alice/nightly-1/retry", {"step": "clean"}),
    ("pipelines/alice/nightly-1/cancel", {}),
    (f"sweeps/{JOB_ID}/stop", {}),
    (f"sweeps/{JOB_ID}/budget", {"trials": 1}),
    ("schedules/alice/nightly/promote", {"job": "nightly-7"}),
    *((f"schedules/alice/nightly/{verb}", {}) for verb in ("run", "suspend", "resume")),
]


@pytest.mark.parametrize("path", READS)
async def test_reads_are_passed_on_with_the_servers_own_token(
    served: Any, api: Any, path: str
) -> None:
    answer = await served.http.get(f"gpucommons/api/{path}", headers={"X-Evil": "1"})
    assert answer.status_code == 200
    assert api.asked("GET") == [f"/v1/{path}"]
    assert api.requests[0].headers["authorization"] == "token secret-token"
    assert "x-evil" not in api.requests[0].headers


async def test_what_becomes_of_an_idle_notebook_is_passed_on(served: Any, api: Any) -> None:
    path = f"leases/{LEASE_ID}/on-idle"
    headers, body = {"X-Evil": "1"}, {"on_idle": "cull"}
    answer = await served.http.post(f"gpucommons/api/{path}", headers=headers, json=body)
    assert answer.status_code == 200
    assert api.asked("PUT") == [f"/v1/{path}"]


async def test_profiles_are_published_and_removed(served: Any, api: Any) -> None:
    for verb, body in (("", {"job": {"launcher": "torchrun"}}), ("/remove", {})):
        answer = await served.http.post(f"gpucommons/api/profiles/vision/ddp{verb}", json=body)
        assert answer.status_code == 200, answer.text
    assert api.asked("PUT") == api.asked("DELETE") == ["/v1/profiles/vision/ddp"]


@pytest.mark.parametrize("verb", ["", "/curve"])
async def test_a_name_may_stand_behind_its_team(served: Any, api: Any, verb: str) -> None:
    await served.http.get(f"gpucommons/api/jobs/vision/log-7{verb}")
    assert [r.url.raw_path.decode() for r in api.requests] == [f"/v1/jobs/vision%2Flog-7{verb}"]


async def test_a_curve_may_be_asked_of_one_source(served: Any, api: Any) -> None:
    path = f"jobs/{JOB_ID}/curve?source="
    await served.http.get(f"gpucommons/api/{path}log")
    assert [r.url.raw_path.decode() for r in api.requests] == [f"/v1/{path}log"]
    for evil in ("..%2Fx", "log%26a=1"):
        answer = await served.http.get(f"gpucommons/api/{path}{evil}")
        assert answer.status_code == 422
    assert len(api.requests) == 1


async def test_an_outlook_is_asked_for_by_a_metric_and_a_number(served: Any, api: Any) -> None:
    path = f"jobs/{JOB_ID}/outlook"
    await served.http.get(f"gpucommons/api/{path}?metric=val%2Floss&goal=0.5")
    assert [dict(r.url.params) for r in api.requests] == [{"metric": "val/loss", "goal": "0.5"}]
    for wrong in ("metric=loss", "metric=loss&goal=nan", "metric=loss&goal=low", "goal=1"):
        answer = await served.http.get(f"gpucommons/api/{path}?{wrong}")
        assert answer.status_code == 422
    assert len(api.requests) == 1


@pytest.mark.parametrize(("path", "body"), WRITES)
async def test_writes_are_passed_on(served: Any, api: Any, path: str, body: Any) -> None:
    answer = await served.http.post(f"gpucommons/api/{path}", json=body)
    assert answer.status_code == 200, answer.text
    assert api.asked("POST")[0] == f"/v1/{path}"


async def test_a_job_goes_on_from_where_it_stood_only_where_that_is_said(
    served: Any, api: Any
) -> None:
    path = f"gpucommons/api/jobs/{JOB_ID}/again"
    stamp = "1795491307232"  # JupyterLab adds it
    await served.http.post(f"{path}?from_here=true&{stamp}", json={})
    refused = [
        (await served.http.post(f"{path}?{query}", json={})).status_code
        for query in (
            *("from_here=yes", "user=bob", "loader_workers=-1", "loader_prefetch=0"),
            "loader_prefetch=4",
        )
    ]
    queries = [r.url.query for r in api.requests if r.url.path.endswith("/again")]
    assert (queries, refused) == ([b"from_here=true"], [422] * 5)


async def test_a_job_is_run_again_with_a_loader_that_is_set_otherwise(
    served: Any, api: Any
) -> None:
    query = "loader_workers=3&loader_prefetch=4"
    await served.http.post(f"gpucommons/api/jobs/{JOB_ID}/again?{query}", json={})
    assert [r.url.query.decode() for r in api.requests if r.url.path.endswith("/again")] == [query]


async def test_every_row_of_the_table_was_tried() -> None:
    # `offers` alone is not: the fake has none. `on-idle`, the times of a schedule and its end, and
    # what leads do with profiles have tests of their own, and so has what is asked of a curve.
    assert len(READS) + len(WRITES) + 7 == len(TABLE)


async def test_a_schedule_is_removed_and_its_times_are_asked_for(served: Any, api: Any) -> None:
    answer = await served.http.post("gpucommons/api/schedules/alice/nightly/remove", json={})
    assert (answer.status_code, api.asked("DELETE")) == (200, ["/v1/schedules/alice/nightly"])
    when = {"schedule": "0 2 * * *", "time_zone": "Europe/Berlin"}
    answer = await served.http.get("gpucommons/api/schedule-times", params=when)
    assert (answer.status_code, api.asked("GET")) == (200, ["/v1/schedule-times"])
    assert dict(api.requests[-1].url.params) == when
    for path in ("schedule-times?schedule=x", "schedules?owner=bob"):
        refused = await served.http.get(f"gpucommons/api/{path}")
        assert refused.status_code == 422


@pytest.mark.parametrize("key", ["page-key-1", f"{JOB_ID}/500"])
async def test_a_job_is_submitted_as_it_was_written_and_only_once_per_key(
    served: Any, api: Any, key: str
) -> None:
    headers = {"Idempotency-Key": key}
    await served.http.post("gpucommons/api/jobs", json=REQUEST, headers=headers)
    assert api.body("/v1/jobs") == REQUEST
    assert api.requests[0].headers["idempotency-key"] == key


async def test_a_key_that_is_not_passed_on_is_refused(served: Any, api: Any) -> None:
    headers = {"Idempotency-Key": "k" * 201}
    answer = await served.http.post("gpucommons/api/jobs", json=REQUEST, headers=headers)
    assert answer.status_code == 422
    assert api.requests == []


@pytest.mark.parametrize("where", ["api/whoami", "files?path=a.py", "api/jobs/x"])
async def test_nobody_reads_without_logging_in(served: Any, api: Any, where: str) -> None:
    answer = await served.http.get(f"gpucommons/{where}", headers={"Authorization": "token no"})
    assert answer.status_code == 403
    assert api.requests == []


@pytest.mark.parametrize(
    "where",
    ["submit-file", "pipeline", "examples", "cell-runs", *(f"api/{path}" for path, _ in WRITES)],
)
async def test_nobody_writes_without_logging_in(served: Any, api: Any, where: str) -> None:
    answer = await served.http.post(
        f"gpucommons/{where}", json={}, headers={"Authorization": "token no"}
    )
    assert answer.status_code == 403
    assert api.requests == []


@pytest.mark.parametrize(
    "where",
    ["submit-file", "pipeline", "examples", "cell-runs", *(f"api/{path}" for path, _ in WRITES)],
)
async def test_only_the_servers_owner_writes(serve: Any, api: Any, where: str) -> None:
    async with serve(GPUCOMMONS_URL="http://scheduler", JUPYTERHUB_USER="alice") as served:
        answer = await served.http.post(f"gpucommons/{where}", json={})
        assert answer.status_code == 403
        assert "This is alice's server" in answer.json()["message"]
        assert api.asked("POST") == []
        assert (await served.http.get("gpucommons/api/teams")).status_code == 200
        assert (await served.http.get("gpucommons/cell-runs?path=a.ipynb")).status_code == 403


@pytest.mark.parametrize("where", ["api/whoami", "files?path=a.py", "cell-runs?path=a.ipynb"])
async def test_the_servers_authorizer_may_refuse_reading(serve: Any, api: Any, where: str) -> None:
    class Refuses(Authorizer):
        def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
            return resource != "gpucommons"

    async with serve({"authorizer_class": Refuses}, GPUCOMMONS_URL="http://scheduler") as served:
        assert (await served.http.get(f"gpucommons/{where}")).status_code == 403
        assert api.requests == []


@pytest.mark.parametrize(
    "path",
    [
        "nodes",
        "config",
        "activities",
        "jobs/..%2F..%2Fconfig",
        "jobs/%2e%2e/quotas",
        "jobs/DIGITS",
        "jobs/a%0Ab",
        "jobs/http:%2F%2Fevil",
        "leases",
        "whoami/",
        *(f"jobs/tok-1/{verb}" for verb in ("log", "why", "results", "cancel", "again")),
        "jobs/vision/digits-7/why",
        "jobs/tok-1%2Flog",
        "jobs/tok-1/log/curve",
        "jobs/a/b/c",
        "jobs/a//curve",
        "jobs/curve/",
        *(
            f"{kind}/{owner}/pools"
            for kind in ("pipelines", "schedules")
            for owner in ("%2e", "%2e%2e", "%252e%252e")
        ),
    ],
)
async def test_what_is_not_in_the_table_does_not_exist(served: Any, api: Any, path: str) -> None:
    answer = await served.http.get(f"gpucommons/api/{path}")
    assert answer.status_code == 404
    assert api.requests == []


@pytest.mark.parametrize(
    "path",
    [
        f"leases/{LEASE_ID}/reclaim",
        "leases/acquire",
        "leases/x/keep",
        "quotas",
        "whoami",
        "jobs/tok-1/log/cancel",
        "jobs/a/b/c/pause",
    ],
)
async def test_no_other_write_exists(served: Any, api: Any, path: str) -> None:
    assert (await served.http.post(f"gpucommons/api/{path}", json={})).status_code == 404
    assert api.requests == []


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("jobs", {"roles": []}, "roles: needs at least 1"),
        ("jobs", {**REQUEST, "owner": "bob"}, "owner: there is no such field"),
        ("jobs", [], "body:"),
        (f"jobs/{JOB_ID}/cancel", {"force": True}, "force: there is no such field"),
        (f"leases/{LEASE_ID}/keep", {"minutes": 31}, "minutes: must be at most 30"),
        (f"leases/{LEASE_ID}/keep", {"minutes": "30"}, "minutes: a whole number is needed"),
    ],
)
async def test_a_wrong_body_is_refused_here(
    served: Any, api: Any, path: str, body: Any, sentence: str
) -> None:
    answer = await served.http.post(f"gpucommons/api/{path}", json=body)
    assert answer.status_code == 422
    assert answer.json()["error"] == "BadRequest"
    assert sentence in answer.json()["message"]
    assert api.requests == []


async def test_a_refusal_does_not_repeat_what_was_sent(served: Any) -> None:
    body = {**REQUEST, "env": {"BAD NAME": "hunter2"}}
    answer = await served.http.post("gpucommons/api/jobs", json=body)
    assert answer.status_code == 422
    assert "hunter2" not in answer.text


async def test_a_huge_body_is_refused(served: Any, api: Any) -> None:
    body = {**REQUEST, "env": {"A": "x" * 300_000}}
    answer = await served.http.post("gpucommons/api/jobs", json=body)
    assert (answer.status_code, answer.json()["error"]) == (413, "TooLarge")
    assert api.requests == []


@pytest.mark.parametrize("query", ["limit=1e9", "limit=-1", "live=maybe", "sql=1"])
async def test_a_wrong_filter_is_refused(served: Any, api: Any, query: str) -> None:
    answer = await served.http.get(f"gpucommons/api/jobs?{query}")
    assert answer.status_code == 422
    assert api.requests == []


async def test_filters_are_passed_on(served: Any, api: Any) -> None:
    await served.http.get("gpucommons/api/jobs?team=vision&live=true&limit=5")
    assert dict(api.requests[0].url.params) == {"team": "vision", "limit": "5", "live": "true"}


async def test_the_schedulers_refusal_keeps_its_status_and_sentence(served: Any, api: Any) -> None:
    body = {"error": "PolicyRefused", "message": "vision has 2 of 2 in use."}
    api.refusal = httpx.Response(409, json=body)
    answer = await served.http.post("gpucommons/api/jobs", json=REQUEST)
    assert answer.status_code == 409
    assert answer.json() == body


async def test_a_redirect_is_not_followed(served: Any, api: Any) -> None:
    api.refusal = httpx.Response(302, headers={"Location": "http://evil/"})
    answer = await served.http.get("gpucommons/api/whoami")
    assert answer.status_code == 503
    assert len(api.requests) == 1


async def test_an_unreachable_scheduler_is_said_without_its_address(served: Any, api: Any) -> None:
    api.down = True
    answer = await served.http.get("gpucommons/api/whoami")
    assert answer.status_code == 503
    assert answer.json()["message"] == (
        "The GPU scheduler does not answer. Notebooks and jobs that run go on without it."
    )


async def test_without_a_scheduler_it_is_said_and_the_server_works(serve: Any) -> None:
    async with serve() as served:
        answer = await served.http.get("gpucommons/api/whoami")
        assert answer.status_code == 503
        assert "no GPU Commons scheduler here" in answer.json()["message"]
        assert (await served.http.get("api/status")).status_code == 200


async def test_our_requests_are_not_activity(served: Any) -> None:
    before = json.loads((await served.http.get("api/status")).text)["last_activity"]
    for _ in range(3):
        await served.http.get("gpucommons/api/whoami")
    after = json.loads((await served.http.get("api/status")).text)["last_activity"]
    assert before == after
