"""A hostile user of one team against another team, over the real API and the real core."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Any

import httpx
import pytest
from service_world import FakeHubServer, ServiceWorld, a_request, an_app, attempt_token, done

from gpucommons.scheduler import models
from gpucommons.scheduler.core.events.leases import MAX_TICKETS
from gpucommons.scheduler.core.model.intents import Intent
from gpucommons.scheduler.core.model.types import Workload, WorkloadId
from gpucommons.scheduler.service import leases
from gpucommons.scheduler.service.jobs import jobs

TICKET: dict[str, Any] = {"milli_gpu": 1000}


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    return ServiceWorld(tmp_path)


class People:
    """Everybody's connection to the API."""

    def __init__(self, world: ServiceWorld) -> None:
        app = an_app(world, FakeHubServer())
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._http = httpx.AsyncClient(transport=transport, base_url="http://api/v1")

    async def ask(self, who: str, method: str, path: str, **options: Any) -> httpx.Response:
        token = who if who.startswith("gca-") else f"{who}-token"
        headers = {"Authorization": f"token {token}", **options.pop("headers", {})}
        return await self._http.request(method, path, headers=headers, **options)

    async def close(self) -> None:
        await self._http.aclose()


@pytest.fixture
async def people(world: ServiceWorld) -> AsyncIterator[People]:
    made = People(world)
    yield made
    await made.close()


@pytest.fixture
def secret(world: ServiceWorld) -> Workload:
    """A running job of ann's that says a secret wherever it can."""
    request = a_request(
        name="moonshot",
        role={"milli_gpu": 500, "command": ["python", "moonshot.py"]},
        labels={"note": "moonshot"},
        env={"WHAT": "moonshot"},
    )
    found = jobs.submit(world.service, world.principal("ann"), request, key=None)
    world.pass_time(2000)
    return world.cluster.workloads[found.id]  # type: ignore[index] # an id is a string


READS = (
    "/jobs/moonshot-1",
    "/jobs/vision/moonshot-1",
    "/jobs/moonshot-1/log",
    "/jobs/moonshot-1/curve",
    "/jobs",
    "/jobs?team=vision",
    "/jobs?team=vision&live=true",
    "/jobs?team=vision&live=false",
    "/jobs?team=vision&owner=ann",
    "/jobs?owner=ann",
    "/events",
    "/events?job=moonshot-1",
    "/events?newest=1000",
    "/nodes",
    "/pools",
    "/teams",
    "/leases",
    "/offers",
    "/offers?user=ann",
    "/report?from_ms=0&to_ms=30000000000",
)


@pytest.mark.parametrize("path", READS)
async def test_no_answer_names_another_teams_people_or_work(
    people: People, secret: Workload, path: str
) -> None:
    answer = await people.ask("bob", "GET", path)

    assert answer.status_code in (200, 403, 404)
    if answer.status_code == 200:
        assert "moonshot" not in answer.text
        assert not re.search(r"\bann\b", answer.text)


async def test_a_job_that_exists_and_one_that_does_not_look_alike(
    people: People, secret: Workload
) -> None:
    never = "01a1fe25-f61f-7000-a581-def9b6bf002b"
    for verb in ("", "/log", "/cancel", "/pause", "/resume", "/again"):
        method = "GET" if verb in ("", "/log") else "POST"
        theirs = await people.ask("bob", method, f"/jobs/{secret.workload_id}{verb}")
        nothing = await people.ask("bob", method, f"/jobs/{never}{verb}")
        assert (theirs.status_code, theirs.json()) == (nothing.status_code, nothing.json()), verb


@pytest.mark.parametrize("field", ["after", "parent"])
async def test_a_job_cannot_be_tied_to_somebody_elses(
    people: People, secret: Workload, field: str
) -> None:
    tie: Any = [secret.workload_id] if field == "after" else secret.workload_id
    for path in ("/jobs", "/quote"):
        body = a_request(**{field: tie}).model_dump(mode="json")
        assert (await people.ask("bob", "POST", path, json=body)).status_code == 404


async def test_an_idempotency_key_belongs_to_one_user(people: People) -> None:
    body = a_request().model_dump(mode="json")
    key = {"Idempotency-Key": "the-same"}
    hers = await people.ask("ann", "POST", "/jobs", json=body, headers=key)
    his = await people.ask("bob", "POST", "/jobs", json=body, headers=key)

    assert (his.status_code, his.json()["owner"]) == (201, "bob")
    assert his.json()["id"] != hers.json()["id"]


async def test_a_stolen_attempt_token_reports_and_nothing_else(
    world: ServiceWorld, people: People, secret: Workload
) -> None:
    stolen = attempt_token(secret.attempts[0].attempt_id)
    for path in READS:
        assert (await people.ask(stolen, "GET", path)).status_code == 403, path
    assert (await people.ask(stolen, "POST", "/jobs/moonshot-1/cancel")).status_code == 403
    step = await people.ask(stolen, "POST", "/attempt/progress", json={"step": 1})
    assert step.status_code == 200

    done(jobs.cancel(world.service, world.principal("ann"), "moonshot-1"))
    world.pass_time(60_000)

    late = await people.ask(stolen, "POST", "/attempt/progress", json={"step": 2})
    assert (late.status_code, late.json()["error"]) == (409, "StaleAttempt")


async def test_a_token_of_another_installation_is_worth_nothing(
    people: People, secret: Workload
) -> None:
    forged = f"gca-{secret.attempts[0].attempt_id}.{'0' * 64}"
    for path in ("/whoami", "/jobs"):
        assert (await people.ask(forged, "GET", path)).status_code == 401


async def test_nobody_waits_in_more_than_a_few_lines(world: ServiceWorld, people: People) -> None:
    hold = models.LeaseRequest(user="bob", milli_gpu=1000)
    held = done(leases.acquire(world.service, world.hub_service, hold, key=None))
    done(leases.started(world.service, world.hub_service, held.id, models.StartedReport()))
    for number in range(MAX_TICKETS):
        body = {**TICKET, "server_name": f"s{number}"}
        assert (await people.ask("bob", "POST", "/leases", json=body)).status_code == 201

    more = await people.ask("bob", "POST", "/leases", json={**TICKET, "server_name": "more"})
    again = await people.ask("bob", "POST", "/leases", json={**TICKET, "server_name": "s1"})

    assert (more.status_code, more.json()["error"]) == (409, "PolicyRefused")
    assert again.status_code == 201


#: What a field may be filled with, to see what breaks.
NASTY = (
    "<script>alert(1)</script>",
    "\x1b[2J",
    "a\nb",
    "a\x00b",
    "\u202egnp",
    "../../etc",
    "/etc/passwd",
    "-rf",
    "$(id)",
    "'; DROP TABLE workloads; --",
    "x" * 100_000,
    "",
    " ",
    None,
    -1,
    0,
    10**30,
    1.5,
    True,
    [],
    {},
    [[[[[]]]]],
)
FIELDS = sorted(models.JobRequest.model_fields)


@pytest.mark.parametrize("field", FIELDS)
async def test_no_value_of_any_field_breaks_the_api(
    world: ServiceWorld, people: People, field: str
) -> None:
    """It is taken or refused with a sentence, and the next one is served."""
    for value in NASTY:
        body = a_request().model_dump(mode="json") | {field: value}
        for path in ("/quote", "/jobs"):
            answer = await people.ask("bob", "POST", path, json=body)
            assert answer.status_code in (200, 201, 403, 404, 409, 422), (value, answer.text)
            assert answer.status_code < 300 or answer.json()["message"]
    world.pass_time(1000)
    assert (await people.ask("bob", "GET", "/whoami")).status_code == 200


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 400_000,
        b'{"roles":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        b'{"roles":[{"command":["x"],"count":' + b"9" * 9000 + b"}]}",
        b'{"not_before_ms":1e999,"roles":[{"command":["x"]}]}',
        b'{"not_before_ms":NaN,"roles":[{"command":["x"]}]}',
        b'{"env":{"A":"\\ud800"},"roles":[{"command":["x"]}]}',
        b'{"name":"\xff"}',
        b"\x1f\x8b\x08\x00",
    ],
)
async def test_bodies_that_are_no_sound_json_are_refused(people: People, content: bytes) -> None:
    kind = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    for headers in (kind, {"Content-Type": "application/json"}):
        answer = await people.ask("bob", "POST", "/jobs", content=content, headers=headers)
        assert answer.status_code == 422


@pytest.mark.parametrize(
    "ref",
    ["..%2f..%2fetc", "a%00b", "%2e%2e", "nlp//x", "-rf", "a" * 200, "vision%2f..%2fnlp%2fx"],
)
async def test_no_reference_leads_anywhere_else(people: People, ref: str) -> None:
    for verb in ("", "/log", "/curve"):
        answer = await people.ask("bob", "GET", f"/jobs/{ref}{verb}")
        assert answer.status_code in (404, 422)


async def test_teams_that_are_each_others_parents_are_refused(
    people: People, world: ServiceWorld
) -> None:
    teams = [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]
    answer = await people.ask("root", "PUT", "/config", json={"teams": teams})
    itself = [{"name": "a", "parent": "a"}]
    alone = await people.ask("root", "PUT", "/config", json={"teams": itself})

    assert (answer.status_code, alone.status_code) == (422, 422)
    assert not {"a", "b"} & set(world.cluster.teams)


async def test_quotas_beyond_all_numbers_are_refused(people: People) -> None:
    for quota in (
        {"fixed_milli_gpu": 10**30},
        {"fixed_milli_gpu": -1},
        {"guaranteed_milli_gpu": 1.5},
        {"limit_milli_gpu": float(10**20)},
        {"over_quota_weight": 10**9},
        {"fixed_milli_gpu": 1_024_000, "guaranteed_milli_gpu": 1_024_000},
    ):
        change = {"team": "nlp", "pool": "gpu", "quota": quota}
        answer = await people.ask("root", "PUT", "/quotas", json={"changes": [change]})
        assert answer.status_code in (409, 422), quota


def test_a_job_is_found_while_a_cycle_takes_it_up(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was answered as missing although it was stored: its user submitted it twice."""
    look = world.store.intent_submits

    def just_decided(ids: Collection[WorkloadId]) -> dict[WorkloadId, Intent]:
        world.loop.cycle()
        return look(ids)

    monkeypatch.setattr(world.loop, "wake", lambda: None)
    monkeypatch.setattr(world.store, "intent_submits", just_decided)

    found = jobs.submit(world.service, world.principal("ann"), a_request(), key=None)

    assert found.name == "digits-1"
