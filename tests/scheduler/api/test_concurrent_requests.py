"""What takes long is done for few at a time, and one caller's questions do not stop the others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from service_world import ServiceWorld, a_request

from gpucommons.scheduler import models
from gpucommons.scheduler.api.authentication import FirstAuthenticator
from gpucommons.scheduler.api.caller import Caller, RouteDependencies
from gpucommons.scheduler.api.limits import concurrent_requests
from gpucommons.scheduler.api.limits.waiting import Waiting
from gpucommons.scheduler.core.whatif import counterfactuals
from gpucommons.scheduler.errors import Misconfigured, TooManyRequests
from gpucommons.scheduler.principal import Principal, PrincipalKind
from gpucommons.scheduler.service.administration import cluster, receipts, usage_report
from gpucommons.scheduler.service.jobs import jobs
from gpucommons.scheduler.service.service import Pending

TOO_BIG = {"milli_gpu": 4000}
SPAN = {"from_ms": 0, "to_ms": 1}


@pytest.fixture
def waits(world: ServiceWorld) -> str:
    """A job in line, for which ways would be tried."""
    for request in (a_request(role=TOO_BIG, over_quota=True), a_request(role=TOO_BIG)):
        name = jobs.submit(world.service, world.principal("ann"), request, key=None).name
    assert jobs.job(world.service, world.principal("ann"), name).state == "queued"
    return name


class Gate:
    """Work that lasts until it is let through."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.running = self.most = self.done = 0
        self._turn = threading.Lock()

    def pass_through(self) -> None:
        with self._turn:
            self.running += 1
            self.most = max(self.most, self.running)
        assert self.open.wait(60)
        with self._turn:
            self.running -= 1
            self.done += 1


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Every trial and every report is held up here."""
    gate = Gate()
    ways, report = counterfactuals.ways, usage_report.report

    def slow_ways(*arguments: Any) -> Any:
        gate.pass_through()
        return ways(*arguments)

    def slow_report(*arguments: Any, **named: Any) -> Any:
        gate.pass_through()
        return report(*arguments, **named)

    monkeypatch.setattr(counterfactuals, "ways", slow_ways)
    monkeypatch.setattr(usage_report, "report", slow_report)
    yield gate
    gate.open.set()


def ask(http: httpx.AsyncClient, path: str, who: str = "ann", **params: Any) -> Any:
    headers = {"Authorization": f"token {who}-token"}
    return http.get(f"/v1/{path}", headers=headers, params=params)


async def until(true: Any) -> None:
    async with asyncio.timeout(90):
        while not true():  # noqa: ASYNC110 - threads change it, without telling this loop
            await asyncio.sleep(0.01)


async def test_a_flood_of_dear_questions_keeps_nobody_waiting(
    http: httpx.AsyncClient, waits: str, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concurrent_requests, "PATIENCE_S", 1.0)
    flood = [asyncio.create_task(ask(http, f"jobs/{waits}/why")) for _ in range(100)]
    await until(lambda: gate.running)

    for who in ("bob", "ann"):
        assert (await ask(http, "whoami", who)).status_code == 200
    of_bob = asyncio.create_task(ask(http, "report", "bob", **SPAN))
    await until(lambda: gate.running == 2)
    refused = await ask(http, "report", "ada", **SPAN)
    await until(lambda: sum(task.done() for task in flood) == 99)
    gate.open.set()
    answers = await asyncio.gather(*flood)

    assert (await of_bob).status_code == 200
    assert gate.most == 2
    assert sorted(answer.status_code for answer in answers) == [200] + [429] * 99
    assert (refused.status_code, refused.json()["error"]) == (429, "TooManyRequests")
    assert int(refused.headers["retry-after"]) > 0
    assert "try again in a moment" in refused.json()["message"]


async def test_a_flood_of_submits_with_files_is_worked_on_one_by_one(
    http: httpx.AsyncClient, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their scripts are read, also of those that are refused then."""

    def slow(*_arguments: Any, **_named: Any) -> Any:
        gate.pass_through()
        raise Misconfigured("never")

    monkeypatch.setattr(jobs, "checked_in_time", slow)
    monkeypatch.setattr(concurrent_requests, "PATIENCE_S", 1.0)
    body = a_request(snapshot="a" * 64).model_dump(mode="json", exclude_unset=True)
    headers = {"Authorization": "token ann-token"}
    flood = [
        asyncio.create_task(http.post("/v1/jobs", json=body, headers=headers)) for _ in range(20)
    ]
    await until(lambda: sum(task.done() for task in flood) == 19)
    assert gate.most == 1
    gate.open.set()
    answers = await asyncio.gather(*flood)
    assert sorted(answer.status_code for answer in answers) == [422] + [429] * 19


async def test_a_flood_of_questions_for_receipts_is_worked_on_one_by_one(
    http: httpx.AsyncClient, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are looked for among those of all teams, and also who would wait for news is answered at once."""

    def slow(*_arguments: Any, **_named: Any) -> Any:
        gate.pass_through()
        return ()

    monkeypatch.setattr(receipts, "with_those_for", slow)
    monkeypatch.setattr(concurrent_requests, "PATIENCE_S", 1.0)
    asked = {"kinds": "evicted", "newest": 100, "wait_s": 20}
    flood = [asyncio.create_task(ask(http, "events", **asked)) for _ in range(30)]
    await until(lambda: sum(task.done() for task in flood) == 29)

    assert gate.running == 1
    assert (await ask(http, "events", "bob")).status_code == 200
    gate.open.set()
    answers = await asyncio.gather(*flood)
    assert sorted(answer.status_code for answer in answers) == [200] + [429] * 29


async def test_who_asks_by_hand_is_never_refused(http: httpx.AsyncClient, waits: str) -> None:
    quote = a_request(role=TOO_BIG).model_dump(mode="json", exclude_unset=True)
    headers = {"Authorization": "token ann-token"}
    for _ in range(5):
        both = await asyncio.gather(
            ask(http, f"jobs/{waits}/why"),
            ask(http, f"jobs/{waits}/why"),
            ask(http, "offers"),
            ask(http, "report", **SPAN),
            http.post("/v1/quote", json=quote, headers=headers),
        )
        assert [answer.status_code for answer in both] == [200] * 5


async def test_the_same_question_is_worked_out_once_until_something_changes(
    http: httpx.AsyncClient, world: ServiceWorld, waits: str, gate: Gate
) -> None:
    gate.open.set()
    first, again = [await ask(http, f"jobs/{waits}/why") for _ in range(2)]
    world.pass_time(1000)
    after_a_cycle = await ask(http, f"jobs/{waits}/why")
    assert first.json()["ways"] == again.json()["ways"] == after_a_cycle.json()["ways"]
    assert gate.done == 1

    jobs.submit(world.service, world.principal("bob"), a_request(), key=None)
    await ask(http, f"jobs/{waits}/why")
    assert gate.done == 2
    world.now_ms = type(world.now_ms)(world.now_ms + 6_000)
    await ask(http, f"jobs/{waits}/why")
    assert gate.done == 3


async def test_one_person_does_not_take_all_threads(
    http: httpx.AsyncClient, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    whoami = cluster.whoami

    def slow(service: Any, principal: Any) -> Any:
        if principal.name == "ann":
            gate.pass_through()
        return whoami(service, principal)

    monkeypatch.setattr(cluster, "whoami", slow)
    flood = [asyncio.create_task(ask(http, "whoami")) for _ in range(60)]
    await until(lambda: gate.running == concurrent_requests.OF_ONE)

    assert (await ask(http, "whoami", "bob")).status_code == 200

    gate.open.set()
    assert {answer.status_code for answer in await asyncio.gather(*flood)} == {200}
    assert gate.most == concurrent_requests.OF_ONE


async def test_tars_of_results_are_looked_for_in_turn(
    http: httpx.AsyncClient, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*_asked: Any) -> Iterator[bytes]:
        gate.pass_through()
        return iter((b"tar",))

    monkeypatch.setattr("gpucommons.scheduler.api.routes.jobs.job_results", slow)
    flood = [asyncio.create_task(ask(http, "jobs/digits/results")) for _ in range(30)]
    await until(lambda: gate.running == concurrent_requests.OF_ONE)
    assert (await ask(http, "whoami", "bob")).status_code == 200

    gate.open.set()
    assert {answer.content for answer in await asyncio.gather(*flood)} == {b"tar"}
    assert gate.most == concurrent_requests.OF_ONE


async def at_a_time(caller: Caller, gate: Gate, *, dear: bool, most: int) -> int:
    """How many of three questions of one caller are answered at a time."""

    def answer(_service: Any, principal: Principal) -> models.WhoAmI:
        gate.pass_through()
        return models.WhoAmI(name=principal.name, teams=[], admin=False)

    run = caller.run_dear if dear else caller.run
    gate.open.clear()
    gate.most = 0
    asked = [asyncio.create_task(run(answer)) for _ in range(3)]
    await until(lambda: gate.running >= most)
    gate.open.set()
    await asyncio.gather(*asked)
    return gate.most


@pytest.mark.parametrize("dear", [False, True])
async def test_who_asks_for_one_person_takes_turns_and_the_hub_asks_for_everybody(
    world: ServiceWorld, gate: Gate, dear: bool
) -> None:
    submit = "custom:gpucommons:submit"
    of_everybody = (world.hub_service, world.culler)
    of_one = (
        world.principal("ann"),
        world.principal("ann", kind=PrincipalKind.LOCAL),
        world.principal("ann", kind=PrincipalKind.ATTEMPT),
        world.principal("portal", submit, kind=PrincipalKind.HUB_SERVICE),
    )
    dependencies = RouteDependencies(
        service=world.service,
        authenticator=FirstAuthenticator(()),
        waiting=Waiting(),
        turns=concurrent_requests.Turns(of_one=1),
    )
    for principals, most in ((of_everybody, 3), (of_one, 1)):
        for principal in principals:
            caller = Caller(principal=principal, dependencies=dependencies)
            assert await at_a_time(caller, gate, dear=dear, most=most) == most


async def test_an_answer_that_is_dear_takes_its_turn_once_it_is_ready() -> None:
    looks, dearly = iter((False, True)), []
    view = models.WhoAmI(name="ann", teams=[], admin=False)

    async def run(work: Any) -> Any:
        dearly.append(work)
        return work()

    pending = Pending(probe=lambda: view, ready=lambda: next(looks), timeout_s=60.0, poll_s=0.001)
    assert await Waiting().settle(pending, whose="ann", dearly=run) is view
    assert dearly == [pending.probe]


async def test_turns_come_back_from_whoever_gave_up(monkeypatch: pytest.MonkeyPatch) -> None:
    some = concurrent_requests.Turns(of_one=1, together=1)

    async def hold() -> None:
        async with some.turn("ann"):
            await asyncio.Event().wait()

    holding = asyncio.create_task(hold())
    await asyncio.sleep(0)
    giving_up = [asyncio.create_task(hold()) for _ in range(3)]
    await asyncio.sleep(0)
    with monkeypatch.context() as patched:
        patched.setattr(concurrent_requests, "PATIENCE_S", 0.05)
        for whose in ("ann", "bob"):
            with pytest.raises(TooManyRequests):
                async with some.turn(whose):
                    pass
    for task in (*giving_up, holding):
        task.cancel()
    await asyncio.gather(holding, *giving_up, return_exceptions=True)

    for whose in ("ann", "bob"):
        async with asyncio.timeout(90), some.turn(whose):
            pass


async def test_after_dear_work_its_caller_pauses_and_the_others_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    some, order = concurrent_requests.Turns(of_one=1, together=1, rests=True), []

    async def work(whose: str) -> None:
        async with some.turn(whose):
            order.append(whose)
            await asyncio.sleep(0.05)

    await asyncio.gather(work("ann"), work("ann"), work("bob"), work("bob"))

    assert order == ["ann", "bob", "ann", "bob"]
