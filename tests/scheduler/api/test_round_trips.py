"""The typed client against the application: same paths, same words, same errors."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from service_world import (
    METRICS_TOKEN,
    FakeHubServer,
    ServiceWorld,
    a_request,
    an_app,
    attempt_token,
)

from gpucommons.scheduler import models
from gpucommons.scheduler.api.routes import attempts as api_attempts
from gpucommons.scheduler.client import (
    AsyncSchedulerClient,
    calls,
    parking_calls,
    pipeline_calls,
    plan_calls,
    profile_calls,
    report_calls,
    schedule_calls,
    sweep_calls,
)
from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.errors import (
    Conflict,
    NoFreeSlice,
    NotAuthenticated,
    StaleAttempt,
    Unavailable,
)
from gpucommons.scheduler.service.jobs import attempts

Clients = Callable[[str | None], AsyncSchedulerClient]
SHA = "a" * 64
#: Asked by workers on a cluster with the standard library alone, or answered with a stream of bytes.
BY_OTHERS = {
    "attempt_inputs",
    "report_curve",
    "report_trainer_status",
    "attempt_orders",
    "attempt_snapshot",
    "attempt_uploads",
    "report_kept",
    "report_tree",
    "attempt_saving",
    "results",
}


def test_every_call_is_a_route_and_every_route_a_call(app: FastAPI) -> None:
    document = app.openapi()
    routes = {
        operation["operationId"]
        for methods in document["paths"].values()
        for operation in methods.values()
    }
    made = {
        name
        for module in (
            calls,
            parking_calls,
            pipeline_calls,
            plan_calls,
            profile_calls,
            report_calls,
            schedule_calls,
            sweep_calls,
        )
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }
    assert routes - {"healthz", "livez", "readyz", "metrics", *BY_OTHERS} == made


async def test_a_job_from_submit_to_its_curve(world: ServiceWorld, client_of: Clients) -> None:
    async with client_of("ann-token") as ann:
        who = await ann.send(calls.whoami())
        assert (who.name, who.teams, who.admin) == ("ann", ["vision"], False)
        job = await ann.send(calls.submit(a_request(role={"milli_gpu": 500}), key="once"))
        assert (
            await ann.send(calls.submit(a_request(role={"milli_gpu": 500}), key="once"))
        ).id == job.id
        world.pass_time(1000)
        running = await ann.send(calls.job("vision/digits-1"))
        assert running.state == "running"
        token = attempt_token(running.attempts[0].id)
        async with client_of(token) as attempt:
            report = models.ProgressReport(step=7, total_steps=9, metrics={"loss": 0.5})
            assert (await attempt.send(calls.report_progress(report))).stop is None
            receipt = models.CheckpointReport(
                step=7, path="checkpoints/step-7", size_bytes=1, sha256=SHA
            )
            await attempt.send(calls.report_checkpoint(receipt))
            await attempt.send(calls.report_checkpoint(receipt))
        now = await ann.send(calls.job("digits-1"))
        assert now.progress is not None
        assert now.checkpoint is not None
        assert (now.progress.step, now.checkpoint.step) == (7, 7)
        curve = await ann.send(calls.curve("digits-1"))
        assert [point.metrics for point in curve.points] == [{"loss": 0.5}]
        assert (await ann.send(calls.log("digits-1"))).lines == ["hello"]
        done = await ann.send(calls.cancel("digits-1"))
        assert done.state in ("cancelling", "cancelled")
        world.pass_time(1000)
        async with client_of(token) as attempt:
            for call in (calls.report_progress(report), calls.report_checkpoint(receipt)):
                with pytest.raises(StaleAttempt):
                    await attempt.send(call)


async def test_waiting_workers_are_looked_up_beside_the_event_loop(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look may ask the store, and an event loop that waits for it serves nobody."""
    threads = []

    def looked(*_: object) -> models.AttemptOrders:
        threads.append(threading.current_thread())
        return models.AttemptOrders()

    monkeypatch.setattr(attempts, "attempt_orders", looked)
    monkeypatch.setattr(attempts, "workers_of", lambda *_: 1)
    monkeypatch.setattr(api_attempts, "LOOK_S", 0.01)
    headers = {"Authorization": f"Bearer {attempt_token('a')}"}
    found = await http.get("/v1/attempt/orders", params={"wait_s": 0.05}, headers=headers)
    assert found.json() == {"stop": None}
    assert len(threads) > 1
    assert threading.current_thread() not in threads


async def test_refusals_arrive_as_the_errors_they_were(client_of: Clients) -> None:
    async with client_of("hub-token") as hub:
        request = models.LeaseRequest(user="ann", milli_gpu=1000)
        lease = await hub.send(calls.acquire(request, key="spawn-1"))
        assert (await hub.send(calls.acquire(request, key="spawn-1"))).id == lease.id
        with pytest.raises(NoFreeSlice):
            await hub.send(calls.acquire(models.LeaseRequest(user="alf", milli_gpu=500)))
    async with client_of(None) as nobody:
        with pytest.raises(NotAuthenticated, match="Authorization"):
            await nobody.send(calls.whoami())
    async with client_of("ann-token") as ann:
        await ann.send(calls.submit(a_request(), key="k"))
        with pytest.raises(Conflict):
            await ann.send(calls.submit(a_request(name="other"), key="k"))


async def test_a_whole_evening_of_a_notebook(world: ServiceWorld, client_of: Clients) -> None:
    async with (
        client_of("hub-token") as hub,
        client_of("culler-token") as culler,
        client_of("ann-token") as ann,
    ):
        lease = await hub.send(calls.acquire(models.LeaseRequest(user="ann", milli_gpu=500)))
        await hub.send(calls.started(lease.id, models.StartedReport(pid=4242)))
        mine = await ann.send(calls.my_lease())
        assert mine.slice == lease.slice
        await ann.send(calls.report_activity(lease.id, models.ActivityReport()))
        (view,) = (await culler.send(calls.activities())).activities
        assert view.reported_ms == world.now_ms
        said = models.IdleReport(idle_since_ms=world.now_ms, returns_ms=world.now_ms + 600_000)
        warned = await culler.send(calls.report_idle(lease.id, said))
        assert warned.state == "warned"
        kept = await ann.send(calls.keep(lease.id, models.KeepRequest()))
        assert kept.state == "active"
        assert (await culler.send(calls.activity(lease.id))).lease.idle is not None
        assert len((await ann.send(calls.leases())).leases) == 1
        assert (await ann.send(calls.offers())).user == "ann"


async def test_a_wait_ends_with_the_event_it_waits_for(
    world: ServiceWorld, client_of: Clients
) -> None:
    async with client_of("ann-token") as ann:
        last = (await ann.send(calls.events())).last
        waiting = asyncio.create_task(ann.send(calls.events(after=last, wait_s=25)))
        await asyncio.sleep(0)
        await ann.send(calls.submit(a_request()))
        found = await asyncio.wait_for(waiting, 5)
        assert {event.kind for event in found.events} >= {"submitted"}


async def test_a_hundred_waits_hold_no_thread(world: ServiceWorld, client_of: Clients) -> None:
    async with client_of("ann-token") as ann:
        last = (await ann.send(calls.events())).last
        waits = [
            asyncio.create_task(ann.send(calls.events(after=last, wait_s=25))) for _ in range(100)
        ]
        await asyncio.sleep(0.2)
        assert (await asyncio.wait_for(ann.send(calls.whoami()), 5)).name == "ann"
        await ann.send(calls.submit(a_request()))
        found = await asyncio.wait_for(asyncio.gather(*waits), 10)
        assert all(answer.events for answer in found)


async def test_a_wait_without_news_ends_in_time(client_of: Clients) -> None:
    async with client_of("ann-token") as ann:
        last = (await ann.send(calls.events())).last
        found = await ann.send(calls.events(after=last, wait_s=0.05))
        assert (found.events, found.last) == ([], last)
        await ann.send(calls.submit(a_request()))
        log = await ann.send(calls.log("digits-1", offset=6, wait_s=0.05))
        assert (log.lines, log.end) == ([], False)


async def test_a_scheduler_that_does_not_decide_says_so(
    world: ServiceWorld, client_of: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.loop, "wake", lambda: None)
    monkeypatch.setattr("gpucommons.scheduler.service.service.DECISION_TIMEOUT_S", 0.01)
    async with client_of("ann-token") as ann:
        queued = await ann.send(calls.submit(a_request()))
        assert queued.state == "queued"
        assert (await ann.send(calls.job(queued.name))).id == queued.id
        assert [job.id for job in (await ann.send(calls.jobs())).jobs] == [queued.id]


async def test_metrics_and_health(world: ServiceWorld, http: httpx.AsyncClient) -> None:
    assert (await http.get("/healthz")).json() == {"ok": True}
    assert (await http.get("/livez")).json() == {"ok": True}
    await http.get("/v1/whoami", headers={"Authorization": "token ann-token"})
    await http.request("ODD", "/v1/whoami")
    response = await http.get("/metrics", headers={"Authorization": f"Bearer {METRICS_TOKEN}"})
    text = response.text
    assert 'gpucommons_capacity_milli_gpu{pool="gpu",state="ready"} 4000.0' in text
    assert 'gpucommons_quota_milli_gpu{pool="gpu",quota="fixed",team="vision"} 1000.0' in text
    assert 'operation="whoami",status="200"' in text
    assert "ODD" not in text
    assert "gpucommons_failed_cycles_total 0.0" in text
    assert "gpucommons_undecided_seconds 0.0" in text


async def test_the_metrics_token_opens_nothing_else(http: httpx.AsyncClient) -> None:
    headers = {"Authorization": f"token {METRICS_TOKEN}"}
    assert (await http.get("/v1/whoami", headers=headers)).status_code == 403
    assert (await http.get("/v1/jobs", headers=headers)).status_code == 403


async def test_a_scheduler_without_the_lead_is_not_healthy(world: ServiceWorld) -> None:
    app = an_app(world, healthy=lambda: False, alive=lambda: False)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://api"
    ) as client:
        for path in ("/healthz", "/livez", "/readyz"):
            assert (await client.get(path)).status_code == 503
            assert (await client.head(path)).status_code == 503


async def test_one_whose_configuration_is_not_in_force_is_healthy_and_not_ready(
    world: ServiceWorld,
) -> None:
    app = an_app(world, ready=lambda: False)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://api"
    ) as client:
        answers = [
            (await client.get(path)).status_code for path in ("/healthz", "/livez", "/readyz")
        ]
    assert answers == [200, 200, 503]


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_a_balancer_may_ask_for_health_by_head(http: httpx.AsyncClient, path: str) -> None:
    assert (await http.head(path)).status_code == 200


async def test_a_hub_that_is_away_is_said(hub: FakeHubServer, client_of: Clients) -> None:
    hub.status = 503
    async with client_of("ann-token") as ann:
        with pytest.raises(Unavailable, match="JupyterHub"):
            await ann.send(calls.whoami())


async def test_receipts_name_only_teams_that_one_sees(world: ServiceWorld, http: Any) -> None:
    """A victim's team learns for which team it went, not for whose job."""
    headers = {"Authorization": "token bob-token"}
    job = {"name": "long", "roles": [{"command": ["true"], "milli_gpu": 4000}]}
    await http.post("/v1/jobs", json=job, headers=headers)
    world.pass_time(120_000)
    small = {"name": "small", "roles": [{"command": ["true"], "milli_gpu": 1000}]}
    await http.post("/v1/jobs", json=small, headers={"Authorization": "token ann-token"})
    world.pass_time(11_000)
    world.pass_time(1000)
    asked = {"kinds": "evicted", "newest": 100}
    answer = await http.get("/v1/events", params=asked, headers=headers)
    (receipt,) = answer.json()["events"]
    assert receipt["data"]["beneficiary"] == "vision"
    assert "beneficiary_id" not in receipt["data"]
    assert receipt["data"]["beneficiary_outcome"] == "waiting"
    world.pass_time(11_000)
    world.pass_time(1000)
    answer = await http.get("/v1/events", params=asked, headers=headers)
    assert answer.json()["events"][0]["data"]["beneficiary_outcome"] == "started"
    assert world.now_ms > Millis(0)
    mine = {"Authorization": "token ann-token"}
    (for_mine,) = (await http.get("/v1/events", params=asked, headers=mine)).json()["events"]
    assert (for_mine["data"]["victim"], for_mine["data"]["beneficiary"]) == (
        "nlp",
        "vision/small-1",
    )
    assert for_mine["text"] == "A job of nlp was stopped for vision."
    assert "long" not in str(for_mine)
