"""Requests that only the leader can answer reach it through any replica."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from service_world import ServiceWorld, a_request, an_app, attempt_token
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from gpucommons.scheduler.api.leading import (
    PASSED_ON,
    ToLeader,
    is_for_leader,
    is_rather_for_leader,
)
from gpucommons.scheduler.api.limits.body_limit import BodyLimit
from gpucommons.scheduler.api.observing import Observing
from gpucommons.scheduler.background_tasks.metrics import Metrics
from gpucommons.scheduler.leadership.parts import name_of
from gpucommons.scheduler.service.jobs import jobs


@pytest.mark.parametrize(
    ("method", "path", "passed_on"),
    [
        ("POST", "/v1/attempt/progress", True),
        ("POST", "/v1/attempt/checkpoints", True),
        ("GET", "/v1/attempt/inputs", False),
        ("PUT", "/v1/leases/x/activity", True),
        ("GET", "/v1/leases/x/activity", True),
        ("GET", "/v1/activities", True),
        ("GET", "/v1/growth", True),
        ("POST", "/v1/leases/x/end", True),
        ("POST", "/v1/leases/acquire", False),
        ("PUT", "/v1/quotas", False),
        ("POST", "/v1/jobs", False),
        ("GET", "/v1/jobs/x/activity", False),
        ("POST", "/v1/attempt/progress/../../jobs", False),
    ],
)
def test_few_things_are_for_the_leader_alone(method: str, path: str, passed_on: bool) -> None:
    assert is_for_leader(method, path) is passed_on


@pytest.mark.parametrize(
    ("method", "path", "rather"),
    [
        ("POST", "/v1/leases/acquire", True),
        ("GET", "/v1/lease", True),
        ("GET", "/v1/leases", True),
        ("GET", "/v1/leases/x", True),
        ("GET", "/v1/jobs", False),
        ("GET", "/v1/leasesx", False),
    ],
)
def test_leases_are_rather_the_leaders(method: str, path: str, rather: bool) -> None:
    assert is_rather_for_leader(method, path) is rather


@dataclass
class Pair:
    """A replica that follows, in front of one that leads."""

    world: ServiceWorld
    leader: FastAPI
    leads: bool = False
    url: str | None = "http://leader"

    def __post_init__(self) -> None:
        self.world_app = self.leader

    def follower(self) -> ToLeader:
        return ToLeader(
            an_app(self.world),
            leading=lambda: self.leads,
            leader=lambda: self.url,
            transport=httpx.ASGITransport(self.leader),
        )


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    world = ServiceWorld(tmp_path)
    jobs.submit(world.service, world.principal("ann"), a_request(), key=None)
    world.pass_time(1000)
    return Pair(world, an_app(world))


@pytest.fixture
async def http(pair: Pair) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(pair.follower())
    async with httpx.AsyncClient(transport=transport, base_url="http://follower") as client:
        yield client


def running(pair: Pair) -> dict[str, str]:
    view = jobs.job(pair.world.service, pair.world.principal("ann"), "digits-1")
    return {"Authorization": f"token {attempt_token(view.attempts[0].id)}"}


async def test_what_is_passed_on_belongs_to_the_span_of_the_replica_that_was_asked(
    pair: Pair,
) -> None:
    ours, theirs = (f"00-{'a' * 32}-{end * 16}-01" for end in "bc")
    heard: list[str | None] = []

    class Span:
        traceparent = ours

        def end(self, route: str, status: int) -> None:
            pass

    class Spans:
        def begin(self, method: str, *_: object) -> Span | None:
            return Span() if method == "POST" else None

    def leader(request: httpx.Request) -> httpx.Response:
        heard.append(request.headers.get("traceparent"))
        return httpx.Response(200, json={})

    follower = ToLeader(
        an_app(pair.world),
        leading=lambda: False,
        leader=lambda: "http://leader",
        transport=httpx.MockTransport(leader),
    )
    counted = Metrics(pair.world.service.loop)
    front = httpx.ASGITransport(Observing(follower, metrics=counted, spans=Spans()))
    async with httpx.AsyncClient(transport=front, base_url="http://follower") as http:
        await http.post("/v1/leases/x/started", headers={"traceparent": theirs})
        await http.get("/v1/activities", headers={"traceparent": theirs})
    assert heard == [ours, theirs]


async def test_a_report_is_passed_on_with_the_callers_own_token(
    pair: Pair, http: httpx.AsyncClient
) -> None:
    body = {"step": 3, "metrics": {"loss": 0.5}}
    answer = await http.post("/v1/attempt/progress", json=body, headers=running(pair))
    assert (answer.status_code, answer.json()) == (200, {"stop": None})
    view = jobs.job(pair.world.service, pair.world.principal("ann"), "digits-1")
    assert view.progress is not None
    assert view.progress.step == 3


async def test_a_request_has_one_number_wherever_it_is_answered(pair: Pair) -> None:
    numbers: list[str] = []

    async def leader(scope: Scope, receive: Receive, send: Send) -> None:
        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                numbers.append(Headers(raw=message["headers"])["X-Request-ID"])
            await send(message)

        await pair.leader(scope, receive, noting)

    follower = ToLeader(
        an_app(pair.world),
        leading=lambda: False,
        leader=lambda: "http://leader",
        transport=httpx.ASGITransport(leader),
    )
    front = httpx.ASGITransport(Observing(follower, metrics=Metrics(pair.world.service.loop)))
    async with httpx.AsyncClient(transport=front, base_url="http://follower") as http:
        for asked in ({"X-Request-ID": "r-1"}, {}):
            answer = await http.get("/v1/activities", headers={**running(pair), **asked})
            assert answer.headers["X-Request-ID"] == numbers[-1]
    assert numbers[0] == "r-1" != numbers[1]


async def test_refusals_of_the_leader_come_back_as_they_are(
    pair: Pair, http: httpx.AsyncClient
) -> None:
    answer = await http.post("/v1/attempt/progress", json={"step": 3})
    assert answer.status_code == 401
    odd = {"Authorization": b"token \xe9"}
    answer = await http.post("/v1/attempt/progress", json={"step": 3}, headers=odd)
    assert answer.status_code == 401
    answer = await http.post("/v1/attempt/progress", json={"step": -3}, headers=running(pair))
    assert (answer.status_code, answer.json()["error"]) == (422, "BadRequest")


def by_socket(pair: Pair, name: str) -> httpx.AsyncClient:
    """The operator at the follower's unix socket: its kernel says who that is."""
    follower = ToLeader(
        an_app(pair.world),
        leading=lambda: pair.leads,
        leader=lambda: pair.url,
        name=lambda: name,
        transport=httpx.ASGITransport(pair.leader),
    )

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await follower({**scope, "state": {"peer_uid": os.geteuid()}}, receive, send)

    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://follower")


async def test_whom_the_followers_kernel_knows_is_told_whom_to_ask(pair: Pair) -> None:
    async with by_socket(pair, "gpucommons-scheduler-7") as http:
        answer = await http.get("/v1/activities")
        assert answer.status_code == 503
        assert "kubectl exec pod/gpucommons-scheduler-7 --" in answer.json()["message"]
        assert (await http.get("/v1/activities", headers=running(pair))).status_code == 403
    async with by_socket(pair, "") as http:
        assert "No replica leads" in (await http.get("/v1/activities")).json()["message"]


def test_the_holder_of_the_lead_is_named_as_it_was_started() -> None:
    assert name_of("gpucommons-scheduler-7f9-x2-0a1b2c3d at http://10.0.0.5:8000") == (
        "gpucommons-scheduler-7f9-x2"
    )
    assert name_of("") == ""


async def test_without_a_leader_the_caller_is_asked_to_try_again(
    pair: Pair, http: httpx.AsyncClient
) -> None:
    pair.url = None
    answer = await http.post("/v1/attempt/progress", json={"step": 3}, headers=running(pair))
    assert (answer.status_code, answer.json()["error"]) == (503, "Unavailable")


@pytest.mark.parametrize("url", ["http://leader", None])
async def test_a_notebook_gets_its_slice_with_and_without_a_leader_that_answers(
    pair: Pair, http: httpx.AsyncClient, url: str | None
) -> None:
    pair.url = url
    answer = await http.post(
        "/v1/leases/acquire",
        json={"user": "ann", "milli_gpu": 500},
        headers={"Authorization": "token hub-token"},
    )
    assert (answer.status_code, answer.json()["state"]) == (200, "granted"), answer.text


async def test_two_that_each_think_the_other_leads_do_not_play_with_a_request(
    pair: Pair, http: httpx.AsyncClient
) -> None:
    pair.leader = pair.follower()  # type: ignore[assignment] # an ASGI app, too
    headers = {**running(pair), PASSED_ON: "1"}
    async with asyncio.timeout(60):
        answer = await http.post("/v1/attempt/progress", json={"step": 3}, headers=headers)
    assert answer.status_code == 503


LEASE = {"user": "ann", "milli_gpu": 500}
HUB = {"Authorization": "token hub-token"}


@pytest.mark.parametrize(
    ("error", "headers", "done_here"),
    [
        (httpx.ConnectError, {}, True),
        (httpx.ConnectTimeout, {}, True),
        (httpx.ReadTimeout, {}, False),
        (httpx.RemoteProtocolError, {}, False),
        (httpx.ReadTimeout, {"Idempotency-Key": "spawn-1"}, True),
    ],
)
async def test_what_the_leader_may_have_done_is_done_again_only_where_that_does_no_harm(
    pair: Pair, error: type[httpx.HTTPError], headers: dict[str, str], *, done_here: bool
) -> None:
    async def leader_that_breaks_off(scope: Scope, receive: Receive, send: Send) -> None:
        if error not in (httpx.ConnectError, httpx.ConnectTimeout):
            await pair.world_app(scope, receive, drop)
        raise error("broken off")

    async def drop(_message: Message) -> None: ...

    pair.leader = leader_that_breaks_off  # type: ignore[assignment] # an ASGI app, too
    transport = httpx.ASGITransport(pair.follower())
    async with httpx.AsyncClient(transport=transport, base_url="http://follower") as client:
        answer = await client.post("/v1/leases/acquire", json=LEASE, headers={**HUB, **headers})
        found = await client.get("/v1/leases", headers=HUB)
    assert answer.status_code == (200 if done_here else 503), answer.text
    if not done_here:
        assert "may have done" in answer.json()["message"]
    assert len(found.json()["leases"]) == 1


async def test_what_keeps_no_key_is_not_done_again_because_it_was_sent_one(pair: Pair) -> None:
    async def leader_that_breaks_off(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise httpx.ReadTimeout("broken off")

    pair.leader = leader_that_breaks_off  # type: ignore[assignment] # an ASGI app, too
    transport = httpx.ASGITransport(pair.follower())
    path = "/v1/leases/0195d3c0-0000-7000-8000-000000000000/keep"
    async with httpx.AsyncClient(transport=transport, base_url="http://follower") as client:
        answer = await client.post(path, headers={**HUB, "Idempotency-Key": "keep-1"})
    assert answer.status_code == 503
    assert "may have done" in answer.json()["message"]


def test_the_routes_that_keep_a_key_are_those_that_take_one(pair: Pair) -> None:
    taken = {
        path
        for path, methods in pair.world_app.openapi()["paths"].items()
        if path.startswith("/v1/leases")
        and any(
            one["name"] == "Idempotency-Key"
            for one in methods.get("post", {}).get("parameters", ())
        )
    }
    assert taken == {"/v1/leases", "/v1/leases/acquire"}


@pytest.mark.parametrize("path", ["/v1/attempt/progress", "/v1/leases/acquire", "/v1/jobs"])
async def test_a_body_that_is_too_large_is_refused_by_a_follower(pair: Pair, path: str) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * (1 << 16)

    app = BodyLimit(pair.follower(), streamed="/v1/snapshots/", max_streamed_bytes=1 << 28)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://follower") as client:
        answer = await client.post(path, content=endless(), headers=HUB)
    assert (answer.status_code, answer.json()["error"]) == (413, "TooLarge")


async def test_of_a_request_that_broke_off_nothing_is_passed_on(pair: Pair) -> None:
    async def untouched(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise AssertionError("the leader was asked")

    pair.leader = untouched  # type: ignore[assignment] # an ASGI app, too
    parts = iter(
        [
            {"type": "http.request", "body": b'{"user": "ann"}', "more_body": True},
            {"type": "http.disconnect"},
        ]
    )
    sent: list[Message] = []

    async def receive() -> Message:
        return next(parts)

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/leases/acquire", "headers": []}
    await pair.follower()({**scope, "query_string": b""}, receive, send)
    assert sent[0]["status"] == 422


async def test_a_leader_that_is_gone_is_said(tmp_path: Path, pair: Pair) -> None:
    def refuse(_request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    app = ToLeader(
        an_app(pair.world),
        leading=lambda: False,
        leader=lambda: "http://leader",
        transport=httpx.MockTransport(refuse),
    )
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://follower") as client:
        answer = await client.post("/v1/attempt/progress", json={"step": 1}, headers=running(pair))
    assert answer.status_code == 503
    assert "takes over" in answer.json()["message"]
