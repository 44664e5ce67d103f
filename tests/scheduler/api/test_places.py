"""Connections are for everybody: who waits for long holds few of them, and no one keeps others out."""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
from contextlib import ExitStack

import httpx
import pytest
from service_world import ServiceWorld, a_request, attempt_token

from gpucommons.gpu.connections import open_file_limit
from gpucommons.scheduler.api.limits import connections
from gpucommons.scheduler.api.limits.connections import max_connections, max_waiting
from gpucommons.scheduler.api.limits.places import Places
from gpucommons.scheduler.api.routes import attempts as api_attempts
from gpucommons.scheduler.errors import TooManyRequests
from gpucommons.scheduler.service.jobs import jobs

EVENTS = {"after": 2**53, "wait_s": 20}


def test_a_caller_has_so_many_places_and_gets_them_back() -> None:
    places = Places()
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(places.taken("ann", most=2, refusal="two"))
        with pytest.raises(TooManyRequests, match="two"):
            stack.enter_context(places.taken("ann", most=2, refusal="two"))
        stack.enter_context(places.taken("bob", most=2, refusal="two"))
        assert len(list(places)) == 3
    assert list(places) == []
    with places.taken("ann", most=1, refusal="one"):
        pass


def test_where_all_are_taken_who_has_most_gives_the_oldest_back() -> None:
    places = Places(in_all=lambda: 3)
    with ExitStack() as stack:
        first, second, third = (
            stack.enter_context(places.taken("ann", most=9, refusal="")) for _ in range(3)
        )
        with pytest.raises(TooManyRequests, match="as there may be"):
            stack.enter_context(places.taken("ann", most=9, refusal=""))
        stack.enter_context(places.taken("bob", most=9, refusal=""))
        assert first.is_given_back
        assert first.bell.is_set()
        assert not second.is_given_back
        # Taking turns at each other's places would help nobody.
        with pytest.raises(TooManyRequests):
            stack.enter_context(places.taken("bob", most=9, refusal=""))
        stack.enter_context(places.taken("eve", most=9, refusal=""))
        assert second.is_given_back
        assert not third.is_given_back
        assert len(list(places)) == 3
    assert list(places) == []


async def test_one_attempt_waits_with_its_workers_and_a_few_more(
    world: ServiceWorld, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_attempts, "LOOK_S", 0.05)
    monkeypatch.setattr(api_attempts, "SLACK", 1)
    ann = world.principal("ann")
    job = jobs.submit(world.service, ann, a_request(role={"milli_gpu": 500}), key=None)
    world.pass_time(1000)
    (attempt,) = jobs.job(world.service, ann, job.id).attempts
    headers = {"Authorization": f"Bearer {attempt_token(attempt.id)}"}

    async def ask(wait_s: float) -> int:
        params = {"wait_s": wait_s}
        return (await http.get("/v1/attempt/orders", params=params, headers=headers)).status_code

    answers = await asyncio.gather(*(ask(1.0) for _ in range(5)))
    assert sorted(answers) == [200, 200, 200, 429, 429]
    assert await ask(0) == 200


async def test_who_waits_most_is_answered_early_when_others_come(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "max_connections", lambda: 6)

    def ask(token: str) -> asyncio.Task[httpx.Response]:
        headers = {"Authorization": f"token {token}"}
        return asyncio.create_task(http.get("/v1/events", params=EVENTS, headers=headers))

    async with asyncio.timeout(90):
        anns = [ask("ann-token") for _ in range(4)]
        # Three places: one of the four is refused, which is when the others wait.
        done, waits = await asyncio.wait(anns, return_when=asyncio.FIRST_COMPLETED)
        assert [one.result().status_code for one in done] == [429]
        bobs = ask("bob-token")
        done, waits = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        assert [one.result().json()["events"] for one in done] == [[]]
        assert not bobs.done()
    for one in (*waits, bobs):
        one.cancel()
    await asyncio.gather(*waits, bobs, return_exceptions=True)


def test_half_of_all_connections_are_for_who_does_not_wait() -> None:
    assert max_connections() <= open_file_limit.limit() * 3 // 4
    assert max_waiting() == max_connections() // 2


def test_a_process_allows_itself_what_it_may() -> None:
    soft, hard = 300, 700
    code = (
        "import json; from gpucommons.gpu.connections import open_file_limit as d;"
        "print(json.dumps([d.limit(), d.raise_limit(), d.raise_limit()]))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
    )
    assert json.loads(found.stdout) == [soft, hard, hard]
