"""The follower beside a real scheduler in virtual time; only the API server is a list here."""

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import kopf
import pytest
from kubernetes.client.exceptions import ApiException
from service_world import ADMIN, TOKENS, FakeHubServer, ServiceWorld, an_app, done

from gpucommons.scheduler.client import AsyncSchedulerClient, calls
from gpucommons.scheduler.core.model.types import UserName
from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.models import JobView
from gpucommons.scheduler.operator.following import Follower, LiveObjects, Pace
from gpucommons.scheduler.operator.handlers import Jobs, Surroundings
from gpucommons.scheduler.operator.objects import ObjectRef, job_request
from gpucommons.scheduler.principal import PrincipalKind
from gpucommons.scheduler.service.jobs import jobs, run_again

SPEC = {"user": "ann", "roles": [{"command": ["x"], "milli_gpu": 1000}]}


class Objects:
    """An API server, as far as the follower asks it."""

    def __init__(self, live_objects: LiveObjects) -> None:
        self.bodies: dict[str, dict[str, Any]] = {}
        self.writes = 0
        self._books = live_objects

    def add(self, name: str, status: dict[str, Any]) -> ObjectRef:
        meta = {"name": name, "namespace": "n", "uid": f"uid-{name}"}
        self.bodies[meta["uid"]] = {"metadata": meta, "status": status}
        self._books.see(self.bodies[meta["uid"]])
        return ObjectRef(**meta)

    def jobs(self) -> list[dict[str, Any]]:
        return list(self.bodies.values())

    def team_of(self, namespace: str) -> str | None:
        return namespace

    def write_status(self, ref: ObjectRef, status: dict[str, Any]) -> None:
        self.writes += 1
        self.bodies[ref.uid]["status"] |= status

    def condition(self, name: str, kind: str) -> dict[str, Any]:
        found = self.bodies[f"uid-{name}"]["status"].get("conditions", [])
        return {one["type"]: one for one in found}.get(kind, {})


class Followed:
    """A follower, its scheduler, its objects."""

    def __init__(self, folder: Path) -> None:
        self.world = ServiceWorld(folder)
        tokens = TOKENS | {"op": {"kind": "service", "name": "operator", "scopes": [ADMIN]}}
        self.away = False
        inner = httpx.ASGITransport(an_app(self.world, FakeHubServer(tokens)))
        followed = self

        class Transport(httpx.AsyncBaseTransport):
            async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
                if followed.away:
                    raise httpx.ConnectError("refused")
                return await inner.handle_async_request(request)

        self.client = AsyncSchedulerClient("http://api", token="op", transport=Transport())
        self.live_objects = LiveObjects()
        self.objects = Objects(self.live_objects)
        self.now_ms = 0
        pace = Pace(poll_s=0.05, pass_s=0.05, away_s=0.01, say_away_s=30)
        self.follower = Follower(
            self.client, self.objects, self.live_objects, pace=pace, now_ms=lambda: self.now_ms
        )

    async def submit(self, name: str, **more: Any) -> JobView:
        ref = self.objects.add(name, {})
        request = job_request(SPEC | more, ref, team="vision")
        view = await self.client.send(calls.submit(request, key=ref.uid))
        self.objects.add(name, {"jobId": view.id, "state": view.state})
        return view


@pytest.fixture
def followed(tmp_path: Path) -> Followed:
    return Followed(tmp_path)


async def test_statuses_follow_and_what_did_not_change_is_not_written(followed: Followed) -> None:
    view = await followed.submit("digits")
    followed.world.pass_time(1000)
    await followed.follower.look_at_all()
    assert followed.objects.bodies["uid-digits"]["status"]["state"] == "running"
    writes = followed.objects.writes
    await followed.follower.look_at_all()
    assert followed.objects.writes == writes
    done(jobs.cancel(followed.world.service, followed.world.admin, view.id))
    followed.world.pass_time(60_000)
    await followed.follower.look_at_all()
    assert followed.objects.bodies["uid-digits"]["status"]["state"] == "cancelled"
    assert followed.objects.condition("digits", "Finished")["reason"] == "Cancelled"


class Counted(dict[str, Any]):
    """Objects that count how often all of them are gone through."""

    passes = 0

    def values(self) -> Any:
        self.passes += 1
        return super().values()


async def test_a_pass_goes_through_all_objects_equally_often_for_few_jobs_and_for_many(
    followed: Followed,
) -> None:
    counts = []
    for names in (["a"], ["b", "c", "d", "e"]):
        for name in names:
            await followed.submit(name)
        followed.live_objects.by_uid = found = Counted(followed.live_objects.by_uid)
        await followed.follower.look_at_all()
        counts.append(found.passes)
    assert counts[0] == counts[1]
    assert {one["status"]["jobId"] for one in followed.objects.bodies.values()} == {
        known.status["jobId"] for known in followed.live_objects.live()
    }


async def test_a_job_without_object_is_cancelled_and_others_are_left(followed: Followed) -> None:
    view = await followed.submit("digits")
    foreign = jobs.submit(
        followed.world.service,
        followed.world.principal("ann"),
        job_request(SPEC, ObjectRef(namespace="n", name="x", uid="x"), team="vision").model_copy(
            update={"labels": {}}
        ),
        key=None,
    )
    followed.live_objects.by_uid.clear()
    await followed.follower.look_at_all()
    assert (await followed.client.send(calls.job(view.id))).state != "cancelled"
    followed.objects.bodies.clear()
    await followed.follower.look_at_all()
    followed.world.pass_time(60_000)
    assert (await followed.client.send(calls.job(view.id))).state == "cancelled"
    assert (await followed.client.send(calls.job(foreign.id))).state != "cancelled"


async def test_a_job_that_is_run_again_is_no_objects_job(followed: Followed) -> None:
    view = await followed.submit("digits")
    done(jobs.cancel(followed.world.service, followed.world.admin, view.id))
    followed.world.pass_time(60_000)
    ann = followed.world.principal("ann")
    again = run_again.again(followed.world.service, ann, view.id, key=None)
    assert again.request is not None
    assert again.request.labels == {}
    followed.live_objects.by_uid.clear()
    followed.objects.bodies.clear()
    await followed.follower.look_at_all()
    followed.world.pass_time(60_000)
    assert (await followed.client.send(calls.job(again.id))).state == "running"


async def test_a_person_may_not_say_that_an_object_made_a_job(followed: Followed) -> None:
    request = job_request(SPEC, ObjectRef(namespace="n", name="x", uid="x"), team="vision")
    with pytest.raises(Misconfigured, match="operator alone"):
        jobs.submit(followed.world.service, followed.world.principal("ann"), request, key=None)


async def test_what_another_service_labelled_is_not_ended(followed: Followed) -> None:
    request = job_request(SPEC, ObjectRef(namespace="n", name="x", uid="x"), team="vision")
    other = replace(followed.world.admin, name=UserName("ci"), kind=PrincipalKind.HUB_SERVICE)
    view = jobs.submit(followed.world.service, other, request, key=None)
    await followed.follower.look_at_all()
    followed.world.pass_time(60_000)
    assert (await followed.client.send(calls.job(view.id))).state == "running"


async def test_an_object_that_names_anothers_job_does_nothing_with_it(followed: Followed) -> None:
    view = await followed.submit("digits")
    followed.world.pass_time(1000)
    followed.objects.add("thief", {"jobId": view.id})
    await followed.follower.look_at_all()
    assert "state" not in followed.objects.bodies["uid-thief"]["status"]
    assert followed.objects.condition("thief", "Followed")["reason"] == "NotItsJob"
    meta = {"name": "thief", "uid": "uid-thief", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    body = kopf.Body({"metadata": meta, "status": {"jobId": view.id}})
    around = Surroundings(
        scheduler=followed.client,
        objects=followed.objects,
        live_objects=followed.live_objects,
        pace=Pace(),
        now_ms=lambda: 0,
    )
    await Jobs(around).end(body, kopf.Patch())
    followed.world.pass_time(60_000)
    assert (await followed.client.send(calls.job(view.id))).state == "running"


async def test_a_job_whose_list_leaves_out_its_request_is_known_all_the_same(
    followed: Followed,
) -> None:
    view = await followed.submit("digits", env={f"E{i}": "x" * 8000 for i in range(2)})
    followed.live_objects.by_uid.clear()
    followed.objects.bodies.clear()
    await followed.follower.look_at_all()
    followed.world.pass_time(60_000)
    assert (await followed.client.send(calls.job(view.id))).state == "cancelled"


async def test_a_scheduler_that_stays_away_is_said_in_every_live_object(
    followed: Followed,
) -> None:
    await followed.submit("digits")
    followed.world.pass_time(1000)
    following = asyncio.create_task(followed.follower.run())

    async def until(holds: Any) -> None:
        async with asyncio.timeout(60):
            while not holds():
                followed.now_ms += 1000
                await asyncio.sleep(0.01)

    await until(lambda: followed.objects.condition("digits", "Followed").get("status") == "True")
    followed.away = True
    await until(lambda: followed.objects.condition("digits", "Followed")["status"] == "False")
    words = followed.objects.condition("digits", "Followed")["message"]
    assert "cannot be reached since 1970-01-01T" in words
    followed.away = False
    await until(lambda: followed.objects.condition("digits", "Followed")["status"] == "True")
    following.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await following


async def test_a_job_that_the_scheduler_forgot_is_said_to_be(followed: Followed) -> None:
    missing = "00000000-0000-7000-8000-000000000000"
    followed.objects.add("old", {"jobId": missing, "state": "running"})
    await followed.follower.look_at_all()
    assert followed.objects.condition("old", "Followed")["reason"] == "Forgotten"


async def test_statuses_follow_on_after_an_object_that_nobody_thought_of(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    await followed.submit("digits")
    followed.world.pass_time(1000)
    write, left = followed.objects.write_status, [TypeError("a status of another shape")]

    def odd(ref: ObjectRef, status: dict[str, Any]) -> None:
        if left:
            raise left.pop()
        write(ref, status)

    monkeypatch.setattr(followed.objects, "write_status", odd)
    following = asyncio.create_task(followed.follower.run())
    async with asyncio.timeout(60):
        while followed.objects.bodies["uid-digits"]["status"]["state"] != "running":
            followed.now_ms += 1000
            assert not following.done()
            await asyncio.sleep(0.01)
    following.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await following
    assert not left


@pytest.mark.parametrize("odd", [TypeError("another shape"), ApiException(status=422)])
async def test_an_object_whose_status_is_never_taken_holds_up_no_other(
    followed: Followed, monkeypatch: pytest.MonkeyPatch, odd: Exception
) -> None:
    for name in ("a", "odd", "z"):
        await followed.submit(name)
    followed.world.pass_time(1000)
    write = followed.objects.write_status

    def refuse(ref: ObjectRef, status: dict[str, Any]) -> None:
        if ref.name == "odd":
            raise odd
        write(ref, status)

    monkeypatch.setattr(followed.objects, "write_status", refuse)
    await followed.follower.look_at_all()
    states = [followed.objects.bodies[f"uid-{name}"]["status"]["state"] for name in ("a", "z")]
    assert states == ["running", "running"]
