"""The pages as they are, between a fake hub and a fake scheduler.

The fake hub is a real HTTP server, so JupyterHub's own login runs. The fake scheduler answers ``/v1``
from models and notes what it was asked. Each file has one event loop: one browser serves all its tests.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import pytest_asyncio
from api_of_one_call import openapi
from judged_runs import a_calibration
from pydantic import BaseModel
from replayed_week import replayed
from spent_budgets import a_budget_list, a_utilisation, days_until, growing_pools, weeks_until
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler, create_signed_value

from gpucommons.gpu.connections.trusted_authorities import trusted_at
from gpucommons.scheduler import errors, models
from gpucommons.scheduler.pages import ticket
from gpucommons.scheduler.pages.api_docs import OpenApi
from gpucommons.scheduler.pages.server import PagesSettings, Server, start

NOW = 1_800_000_000_000
MINUTE = 60_000
SECRET = b"a secret for cookies, 32 bytes.."
SERVICE_TOKEN = "service-token-never-in-html"
TICKET = "0190aaaa-0000-7000-8000-000000000001"
NOTEBOOK = "0190aaaa-0000-7000-8000-000000000002"
BENEFICIARY = "0190aaaa-0000-7000-8000-000000000003"
PREFIX = "/services/gpucommons/"

USERS = {
    "token-alice": models.WhoAmI(name="alice", teams=["vision"], admin=False),
    "token-stranger": models.WhoAmI(name="stranger", teams=[], admin=False),
    "token-lead": models.WhoAmI(name="lead", teams=["vision"], admin=False, leads=["vision"]),
    "token-admin": models.WhoAmI(name="admin", teams=["vision"], admin=True),
}


def lease(**changes: Any) -> models.LeaseView:
    """A ticket of alice, first in line."""
    values: dict[str, Any] = {
        "id": TICKET,
        "user": "alice",
        "server_name": "",
        "team": "vision",
        "pool": "a100",
        "state": "waiting",
        "milli_gpu": 1000,
        "gpu_kind": "A100-40",
        "requested_ms": NOW - 18 * MINUTE,
        "since_ms": NOW - 18 * MINUTE,
        "position": 1,
        "reason": models.ReasonView(
            code="share",
            text="vision holds all of its 2 fixed GPUs.",
            unblock="½ could start when user-b's is returned.",
        ),
    }
    return models.LeaseView.model_validate(values | changes)


#: What becomes of a notebook that is idle for too long.
KEPT = (
    "Its server is stopped. Kernels that can be saved are kept and go on when it is started again."
)


def holder(user: str, milli_gpu: int, idle_min: int | None = None, **changes: Any) -> Any:
    """An active notebook."""
    idle = models.IdleView(
        idle_since_ms=None if idle_min is None else NOW - idle_min * MINUTE,
        keeps_left=2,
        on_idle_text=KEPT,
    )
    return lease(
        id=NOTEBOOK,
        user=user,
        milli_gpu=milli_gpu,
        state="active",
        position=None,
        reason=None,
        idle=idle,
        **changes,
    )


def hold(shown_as: str, offset: int, milli_gpu: int, owner: str = "user-b") -> models.HoldView:
    """A slice on a GPU."""
    return models.HoldView(
        team="vision",
        owner=owner,
        name="lab",
        shown_as=shown_as,
        offset=offset,
        milli_gpu=milli_gpu,
    )


_SHAPES = {"n": "notebook", "x": "notebook-idle", "g": "guaranteed", "b": "borrowed"}
_PICTURE = {
    "gpu-01": "g100 g100 g100 g100 g100 g100 b100 b100",
    "gpu-02": "n50+n25 n50+x50 b100 b100 - - - g100",
    "gpu-03": "n50+x50 n100 g100 g100 g100 g100 b100 b100",
    "gpu-04": "n100 x100 n25+n25+n25 g100 g100 b100 b100 b100",
}


def _device(index: int, text: str) -> models.DeviceView:
    holds, offset = [], 0
    for part in text.split("+") if text != "-" else []:
        milli_gpu = int(part[1:]) * 10
        holds.append(hold(_SHAPES[part[0]], offset, milli_gpu))
        offset += milli_gpu
    return models.DeviceView(
        id=f"sim-{index}",
        index=index,
        kind="A100-40",
        memory_mib=40960,
        simulated=True,
        holds=holds,
    )


def nodes() -> models.NodeList:
    """Four nodes with eight simulated GPUs each."""
    return models.NodeList(
        now_ms=NOW,
        nodes=[
            models.NodeView(
                id=name,
                pool="a100",
                state="ready",
                cpu_milli=64_000,
                memory_mib=512_000,
                devices=[_device(i, text) for i, text in enumerate(line.split())],
            )
            for name, line in _PICTURE.items()
        ],
    )


def team(name: str, fixed: int, guaranteed: int, limit: int, **use: int) -> models.TeamView:
    """A team with quota in a100, in whole GPUs."""
    return models.TeamView(
        name=name,
        mine=name == "vision",
        members=["alice"] if name == "vision" else [],
        use=[
            models.TeamUseView(
                pool="a100",
                quota=models.QuotaModel(
                    fixed_milli_gpu=fixed * 1000,
                    guaranteed_milli_gpu=guaranteed * 1000,
                    limit_milli_gpu=limit * 1000,
                    over_quota_weight=use.pop("weight", 1),
                ),
                **use,
            )
        ],
    )


def teams() -> models.TeamList:
    """Three teams, as in the sketch of the page."""
    held = ("fixed_used_milli_gpu", "guaranteed_used_milli_gpu", "borrowed_milli_gpu")
    return models.TeamList(
        teams=[
            team("vision", 2, 4, 8, weight=2, **dict(zip(held, (2000, 4000, 2000), strict=True))),
            team("nlp", 4, 12, 24, weight=3, **dict(zip(held, (3000, 12000, 5000), strict=True))),
            team("speech", 2, 6, 6, **dict(zip(held, (1500, 4000, 0), strict=True)), waiting=1),
        ]
    )


def pools() -> models.PoolList:
    """One pool."""
    pool = models.PoolView(
        name="a100",
        gpu_kind="A100-40",
        simulated=True,
        notice_s=30,
        grace_s=30,
        notebook_sizes=[250, 500, 1000],
        total_milli_gpu=32_000,
        free_milli_gpu=3500,
    )
    return models.PoolList(pools=[pool], now_ms=NOW)


def job(name: str, team_name: str, owner: str, workers: int, why: tuple[str, str, str]) -> Any:
    """A queued job; ``why`` = class, sentence, what would unblock."""
    return models.JobView(
        id=f"0190bbbb-0000-7000-8000-{len(name) * 7 + workers:012d}",
        name=name,
        kind="training",
        team=team_name,
        owner=owner,
        submitted_by=owner,
        state="queued",
        pools=["a100"],
        milli_gpu=workers * 1000,
        workers=workers,
        priority="normal",
        over_quota=True,
        submitted_ms=NOW - workers * 2 * MINUTE,
        since_ms=NOW - workers * 2 * MINUTE,
        reason=models.ReasonView(code=why[0], text=why[1], unblock=why[2] or None),
        position=1,
    )


def jobs() -> models.JobList:
    """Three that wait and one that runs."""
    waiting = [
        job(
            "digits-9",
            "vision",
            "user-d",
            4,
            (
                "fragmentation",
                "3 free on gpu-02, 4 on one node are needed",
                "moving digits-7 frees the fourth",
            ),
        ),
        job("whisper-2", "speech", "user-e", 8, ("limit", "speech may hold 6", "")),
        job("bert-4", "nlp", "user-f", 1, ("kind", "both h100 are held", "an A100-40 is free")),
    ]
    running = waiting[0].model_copy(
        update={"name": "digits-7", "state": "running", "owner": "alice", "reason": None}
    )
    return models.JobList(jobs=[*waiting, running])


def activities() -> models.ActivityList:
    """One idle, one busy, one that never reported."""
    busy = models.KernelActivity(kind="kernel", busy=True, last_active_ms=NOW - MINUTE)
    quiet = models.KernelActivity(kind="kernel", busy=False, last_active_ms=NOW - 41 * MINUTE)
    return models.ActivityList(
        now_ms=NOW,
        activities=[
            models.ActivityView(
                lease=holder("user-c", 1000),
                reported_ms=NOW,
                kernels=[busy],
                gpu_active_ms=NOW,
                usage_ms=NOW,
                compute_percent_p95=87,
            ),
            models.ActivityView(
                lease=holder("user-b", 500, idle_min=41),
                reported_ms=NOW,
                kernels=[quiet],
                gpu_active_ms=NOW - 43 * MINUTE,
                usage_ms=NOW,
                compute_percent_p95=0,
            ),
            models.ActivityView(lease=holder("user-d", 500)),
        ],
    )


def receipts() -> models.EventList:
    """One eviction."""
    event = models.EventView(
        number=7,
        at_ms=NOW - 5 * MINUTE,
        kind="evicted",
        by="scheduler",
        text="digits-7 was stopped",
        team="vision",
        data={
            "victim": "vision/digits-7",
            "beneficiary": "nlp/bert-3",
            "beneficiary_id": BENEFICIARY,
            "rule": "guarantee of nlp",
            "lost_milli_gpu_s": 48_000,
            "checkpoint_step": 5430,
        },
    )
    return models.EventList(events=[event], last=7)


def offers(ticket: models.LeaseView | None = None) -> models.OfferList:
    """What alice may open: ½ is free, 1 waits."""
    sizes = [
        models.SizeView(
            milli_gpu=500, memory_mib=19866, availability="free", text="starts at once"
        ),
        models.SizeView(milli_gpu=1000, memory_mib=39732, availability="wait", text="all are held"),
    ]
    offer = models.OfferView(
        team="vision",
        pool="a100",
        gpu_kind="A100-40",
        fixed_milli_gpu=2000,
        fixed_used_milli_gpu=2000,
        sizes=sizes,
        isolation="none",
        simulated=True,
    )
    return models.OfferList(user="alice", offers=[offer], now_ms=NOW, ticket=ticket)


def report() -> models.Report:
    """One user whose name looks like a formula."""
    row = models.ReportRow(
        team="vision",
        owner="=cmd",
        held_milli_gpu_h=10_000,
        used_milli_gpu_h=8100,
        idle_milli_gpu_h=1000,
        borrowed_milli_gpu_h=2000,
        lost_milli_gpu_h=100,
    )
    return models.Report(
        from_ms=0,
        to_ms=1,
        rows=[row],
        lent=[models.LentRow(team="vision", lent_milli_gpu_h=1500, quota_milli_gpu_h=8000)],
        lent_from_ms=0,
        capacity_milli_gpu_h=20_000,
        all_teams=True,
        days=days_until(NOW),
        weeks=weeks_until(NOW),
    )


@dataclass
class FakeScheduler:
    """Answers by ``METHOD path`` pattern; a test replaces single answers."""

    answers: dict[str, Any] = field(default_factory=dict)
    #: (method, path, token, body)
    asked: list[tuple[str, str, str, Any]] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        token = request.headers.get("Authorization", "").removeprefix("token ")
        body = json.loads(request.content) if request.content else None
        self.asked.append((request.method, request.url.path, token, body))
        state = request.url.params.get("state")
        if token not in USERS:
            return _refusal(errors.NotAuthenticated())
        if request.url.path == "/v1/whoami":
            return _answer(USERS[token])
        for pattern, answer in self.answers.items():
            if re.fullmatch(pattern, f"{request.method} {request.url.path}"):
                found = answer(body) if callable(answer) else answer
                if isinstance(found, errors.SchedulerError):
                    return _refusal(found)
                if state is not None and isinstance(found, models.LeaseList):
                    kept = [lease for lease in found.leases if lease.state == state]
                    found = models.LeaseList(leases=kept)
                if request.url.params.get("kinds") == models.RECONCILED:
                    kept = [one for one in found.events if one.kind == models.RECONCILED]
                    found = models.EventList(events=kept, last=found.last)
                return _answer(found)
        return _refusal(errors.NotFound())

    def writes(self) -> list[tuple[str, str, str, Any]]:
        """Everything but reads."""
        return [asked for asked in self.asked if asked[0] != "GET"]


def _answer(view: BaseModel) -> httpx.Response:
    return httpx.Response(200, content=view.model_dump_json())


def _refusal(error: errors.SchedulerError) -> httpx.Response:
    return httpx.Response(error.status, json={"error": error.code, "message": str(error)})


def _layout(body: dict[str, Any]) -> models.LayoutView | errors.SchedulerError:
    fixed = 6000 + sum(row["quota"]["fixed_milli_gpu"] for row in body["changes"])
    if fixed + 22_000 > 32_000:
        text = f"fixed+guarantee {(fixed + 22_000) / 1000:g} of 32 – over by"
        return errors.CannotLayOut(f"{text} {(fixed - 10_000) / 1000:g}, not saved")
    return models.LayoutView(
        ok=True,
        text=f"{fixed / 1000:g} fixed + 22 guaranteed = {(fixed + 22_000) / 1000:g} of 32 GPUs:"
        " they fit",
        fixed_milli_gpu=fixed,
        guaranteed_milli_gpu=22_000,
        total_milli_gpu=32_000,
    )


@pytest.fixture
def scheduler() -> FakeScheduler:
    """A scheduler with the cluster of the sketches."""
    holders = [holder("user-b", 500, idle_min=41), holder("user-c", 1000), holder("user-d", 500)]
    answers: dict[str, Any] = {
        "GET /v1/nodes": nodes(),
        "GET /v1/pools": pools(),
        "GET /v1/growth": growing_pools(NOW),
        "GET /v1/teams": teams(),
        "GET /v1/jobs": jobs(),
        f"GET /v1/jobs/{BENEFICIARY}": jobs().jobs[3],
        "GET /v1/leases": models.LeaseList(leases=[lease(), *holders]),
        "GET /v1/leases/.*": lease(),
        "GET /v1/offers": offers(),
        "GET /v1/activities": activities(),
        "GET /v1/events": receipts(),
        "GET /v1/report": report(),
        "GET /v1/utilisation": a_utilisation(NOW),
        "GET /v1/calibration": a_calibration(NOW),
        "GET /v1/budgets": a_budget_list(NOW),
        "PUT /v1/budgets/vision": a_budget_list(NOW).budgets[0],
        "GET /v1/openapi.json": OpenApi(openapi()),
        "POST /v1/leases": lease(),
        "POST /v1/leases/.*/end": lease(state="ended", ended_text="left the line"),
        "POST /v1/leases/.*/reclaim": holder("user-b", 500, idle_min=41),
        "PUT /v1/quotas": _layout,
        "POST /v1/replay": replayed(),
    }
    return FakeScheduler(answers=answers)


class _HubUser(RequestHandler):
    def get(self) -> None:
        me = USERS.get(self.request.headers.get("Authorization", "").removeprefix("token "))
        if me is None:
            self.set_status(403)
            self.finish({})
            return
        scopes = [] if me.name == "stranger" else ["access:services!service=gpucommons"]
        self.finish({"kind": "user", "name": me.name, "groups": me.teams, "scopes": scopes})


class _HubToken(RequestHandler):
    def post(self) -> None:
        self.finish({"access_token": "token-alice"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.match("scheduler/pages/*") and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


@pytest_asyncio.fixture(loop_scope="module")
async def hub_url() -> AsyncIterator[str]:
    """A hub that knows two tokens."""
    hub = Application([("/hub/api/user", _HubUser), ("/hub/api/oauth2/token", _HubToken)])
    server = HTTPServer(hub)
    sockets = bind_sockets(0, "127.0.0.1")
    server.add_sockets(sockets)
    yield f"http://127.0.0.1:{sockets[0].getsockname()[1]}/hub/api"
    with contextlib.suppress(ImportError):  # only JupyterHub 6 keeps connections of its own
        httpclient = importlib.import_module("jupyterhub.httpclient")
        await httpclient.JupyterHubHTTPClient.loop_instance().close()
    server.stop()
    await server.close_all_connections()


StartPages = Callable[..., Any]


@pytest_asyncio.fixture(loop_scope="module")
async def start_pages(
    scheduler: FakeScheduler, hub_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[StartPages]:
    """Start the pages; keyword arguments are settings."""
    monkeypatch.setattr(ticket, "FORECAST_DELAYS_S", (0.0, 0.0))
    running: list[Server] = []
    known = {
        "api_url": "http://scheduler",
        "hub_api_url": hub_url,
        "hub_api_token": SERVICE_TOKEN,
        "cookie_secret": SECRET,
    }

    async def begin(**settings: Any) -> Server:
        server = await start(
            PagesSettings(**(known | settings)),
            transport=httpx.MockTransport(scheduler),
        )
        running.append(server)
        return server

    yield begin
    for server in running:
        await server.stop()


def login_cookie(token: str) -> str:
    """What a browser holds after the login."""
    return create_signed_value(SECRET, "service-gpucommons", token).decode()


class Visitor(httpx.AsyncClient):
    """A browser without scripts."""

    def __init__(self, server: Server, token: str | None) -> None:
        cookies = {"service-gpucommons": login_cookie(token)} if token else {}
        super().__init__(
            base_url=server.url + PREFIX,
            cookies=cookies,
            trust_env=False,
            verify=trusted_at(server.url),
        )
        #: What a browser says of a form that a page beside the service sends.
        self.origin = server.url

    async def page(self, path: str) -> str:
        """The text of a page that must be there."""
        answer = await self.get(path.removeprefix(PREFIX))
        assert answer.status_code == 200, answer.text
        return answer.text

    async def xsrf(self) -> str:
        """The token of a form."""
        found = re.search(r'name="gc-xsrf" content="([^"]+)"', await self.page("ticket?size=1"))
        assert found is not None
        return found[1]


@pytest_asyncio.fixture(loop_scope="module")
async def visit(start_pages: StartPages) -> AsyncIterator[Callable[..., Any]]:
    """Visit freshly started pages: ``visit("alice")``, ``visit("admin", allow_admin_writes=True)``."""
    visitors: list[Visitor] = []

    async def begin(name: str | None, **settings: Any) -> Visitor:
        visitor = Visitor(await start_pages(**settings), f"token-{name}" if name else None)
        visitors.append(visitor)
        return visitor

    yield begin
    for visitor in visitors:
        await visitor.aclose()


@pytest.fixture
def cluster() -> Iterator[Any]:
    """The builders above, for tests of the pure parts."""
    return sys.modules[__name__]
