from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from free_ports import free_port
from jupyter_client.connect import LocalPortCache
from serving import Served, serving

from gpucommons.labextension import extension
from gpucommons.scheduler.client import AsyncSchedulerClient
from gpucommons.scheduler.models import (
    AdviceView,
    AttemptView,
    Curve,
    CurveOutlook,
    CurvePoint,
    DataAdvice,
    EnvironmentList,
    EventList,
    EventView,
    JobList,
    JobView,
    LeaseView,
    LogView,
    PipelineList,
    PipelineView,
    PoolList,
    ProfileList,
    ProfileView,
    Quote,
    ScheduleList,
    ScheduleTimes,
    ScheduleView,
    SliceView,
    SnapshotView,
    SweepFigures,
    SweepList,
    SweepView,
    TeamList,
    TeamView,
    TogetherView,
    WhoAmI,
)
from gpucommons.scheduler.models.jobs.profiles import ProfileJob
from gpucommons.scheduler.models.notifications import ChannelView, NotificationsView
from gpucommons.scheduler.models.text.state_words import state_words

JOB_ID = "018f0000-0000-7000-8000-000000000001"
LEASE_ID = "018f0000-0000-7000-8000-0000000000aa"
NOW = 1_800_000_000_000


def _make_job(**fields: Any) -> JobView:
    attempt = AttemptView(
        id="a1", number=1, state="running", hold_class="guaranteed", reserved_ms=1, started_ms=2
    )
    base: dict[str, Any] = {
        "id": JOB_ID,
        "name": "digits-7",
        "kind": "training",
        "team": "vision",
        "owner": "alice",
        "submitted_by": "alice",
        "state": "running",
        "pools": ["train"],
        "milli_gpu": 1000,
        "workers": 1,
        "priority": "normal",
        "over_quota": True,
        "submitted_ms": NOW,
        "since_ms": NOW,
        "attempts": [attempt],
    }
    asked = {**base, **fields}
    return JobView(**{"state_text": state_words(asked["state"]), **asked})


def make_lease(**fields: Any) -> LeaseView:
    held = SliceView(
        slice_id="s1",
        node="here",
        device_ids=["sim-0"],
        device_indices=[0],
        gpu_kind="A100-40",
        milli_gpu=500,
        memory_mib=19866,
        isolation="none",
        simulated=True,
    )
    base: dict[str, Any] = {
        "id": LEASE_ID,
        "user": "alice",
        "server_name": "",
        "team": "vision",
        "pool": "build",
        "state": "active",
        "milli_gpu": 500,
        "requested_ms": NOW,
        "since_ms": NOW,
        "slice": held,
    }
    return LeaseView(**{**base, **fields})


PROFILE = ProfileView(
    team="vision", name="ddp", job=ProfileJob(), published_by="alice", published_ms=NOW
)


class FakeApi:
    """The scheduler's API as the extension sees it; remembers what was asked."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self.job = _make_job()
        self.lease: LeaseView | None = make_lease()
        self.log = ["epoch 1", "epoch 2"]
        self.advice = AdviceView(declined="Can't say yet.", now_ms=NOW)
        self.events: list[EventView] = []
        self.down = False
        self.environments: Literal["folder", "image"] = "image"
        self.refusal: httpx.Response | None = None
        #: Held questions for events are answered when this is set.
        self.news = asyncio.Event()

    def happen(self, kind: str) -> None:
        number = len(self.events) + 1
        event = EventView(number=number, at_ms=NOW, kind=kind, by="scheduler", text=kind)
        self.events.append(event)
        self.news.set()

    def asked(self, method: str) -> list[str]:
        return [r.url.path for r in self.requests if r.method == method]

    def body(self, path: str) -> Any:
        return json.loads(next(r for r in self.requests if r.url.path == path).content)

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if self.down:
            raise httpx.ConnectError("refused", request=request)
        if self.refusal is not None:
            return self.refusal
        path = request.url.path.removeprefix("/v1/")
        if path == "events":
            return await self._events(request)
        view = self._view(request.method, path)
        if view is None:
            return httpx.Response(404, json={"error": "UnknownWorkload", "message": "Not yours."})
        return httpx.Response(200, content=view.model_dump_json())

    async def _events(self, request: httpx.Request) -> httpx.Response:
        after = int(request.url.params["after"])
        if "newest" in request.url.params:
            return self._answer(EventList(events=[], last=len(self.events)))
        if len(self.events) <= after:
            self.news.clear()
            await self.news.wait()
        found = self.events[after:]
        return self._answer(EventList(events=found, last=len(self.events)))

    @staticmethod
    def _answer(view: Any) -> httpx.Response:
        return httpx.Response(200, content=view.model_dump_json())

    def _view(self, method: str, path: str) -> Any:
        job_path = f"jobs/{JOB_ID}"
        quote = Quote(
            hold_class="guaranteed",
            text="Inside vision's guarantee.",
            starts_now=True,
            guaranteed_milli_gpu=4000,
            guaranteed_used_milli_gpu=0,
            free_milli_gpu=4000,
        )
        point = CurvePoint(attempt=1, step=1, at_ms=NOW, metrics={"loss": 0.5})
        found: dict[tuple[str, str], Any] = {
            ("GET", "whoami"): WhoAmI(
                name="alice", teams=["vision"], admin=False, environments=self.environments
            ),
            ("GET", "environments"): EnvironmentList(kind="image", environments=[]),
            ("GET", "pools"): PoolList(pools=[], now_ms=NOW),
            ("GET", "teams"): TeamList(
                teams=[TeamView(name="vision", mine=True, sizes=[0, 500, 1000, 3000])]
            ),
            ("GET", "jobs"): JobList(jobs=[self.job]),
            ("GET", job_path): self.job,
            ("GET", f"{job_path}/curve"): Curve(points=[point]),
            ("GET", f"{job_path}/log"): LogView(
                lines=self.log, attempt=1, next_offset=99, end=True
            ),
            ("GET", "lease"): self.lease,
            ("POST", "jobs"): self.job,
            ("POST", "quote"): quote,
            ("GET", f"{job_path}/data"): DataAdvice(verdict="unknown", text="Not known."),
            ("GET", f"{job_path}/outlook"): CurveOutlook(
                metric="loss", goal=0.1, unit="step", text="Can't say yet."
            ),
            ("GET", "advise/together"): TogetherView(text="None wait."),
            ("POST", f"{job_path}/data"): self.job,
            ("POST", "advise"): self.advice,
            ("POST", f"leases/{LEASE_ID}/keep"): self.lease,
            ("POST", f"leases/{LEASE_ID}/drop"): self.lease,
            ("POST", f"leases/{LEASE_ID}/hibernate"): self.lease,
            ("POST", f"leases/{LEASE_ID}/park"): self.lease,
            ("PUT", f"leases/{LEASE_ID}/on-idle"): self.lease,
            ("PUT", f"leases/{LEASE_ID}/activity"): self.lease,
            ("GET", "profiles"): ProfileList(profiles=[]),
            ("PUT", "profiles/vision/ddp"): PROFILE,
            ("DELETE", "profiles/vision/ddp"): PROFILE,
        }
        nightly = ScheduleView(
            name="nightly",
            owner="alice",
            team="vision",
            schedule="0 2 * * *",
            time_zone="UTC",
            concurrency_policy="Forbid",
            what="½ GPU: python train.py",
            kind="retrain",
        )
        piped = PipelineView(
            name="nightly-1",
            owner="alice",
            team="vision",
            state="running",
            submitted_ms=NOW,
            steps=[],
        )
        found["GET", "pipelines"] = PipelineList(pipelines=[piped])
        found["GET", "pipelines/alice/nightly-1"] = piped
        found["POST", "pipelines"] = piped
        for verb in ("retry", "cancel"):
            found["POST", f"pipelines/alice/nightly-1/{verb}"] = piped
        counts = dict.fromkeys(("begun", "running", "waiting", "paused", "done", "failed"), 0)
        sweep = SweepView(
            id=JOB_ID,
            kind="sweep",
            name="digits-1",
            owner="alice",
            team="vision",
            made_ms=NOW,
            trials_of=2,
            milli_gpu_s=0,
            **counts,
        )
        told = ChannelView(about=["finish"], to="alice@example.org")
        found["GET", "notifications"] = NotificationsView(mail=told, webhook=told, newest=[])
        found["GET", "sweeps"] = SweepList(sweeps=[sweep])
        found["GET", f"sweeps/{JOB_ID}"] = sweep
        found["GET", f"sweeps/{JOB_ID}/figures"] = SweepFigures(gpus=[], importance={})
        for verb in ("stop", "budget"):
            found["POST", f"sweeps/{JOB_ID}/{verb}"] = sweep
        found["GET", "schedules"] = ScheduleList(schedules=[nightly])
        found["GET", "schedule-times"] = ScheduleTimes(next_ms=[NOW])
        found["GET", "schedules/alice/nightly"] = nightly
        found["DELETE", "schedules/alice/nightly"] = nightly
        found["PUT", "schedules/alice/train"] = nightly
        for verb in ("promote", "run", "suspend", "resume"):
            found["POST", f"schedules/alice/nightly/{verb}"] = nightly
        for verb in ("cancel", "pause", "resume", "resize", "again"):
            found["POST", f"{job_path}/{verb}"] = self.job
        if method == "PUT" and path.startswith("snapshots/"):
            return SnapshotView(sha256=path.removeprefix("snapshots/"), size_bytes=1)
        return found.get((method, path))


@pytest.fixture(scope="session", autouse=True)
def _ports_of_kernels() -> Iterator[None]:
    """Those that nobody else is given: a kernel that is started by Jupyter alone lets its ports go, and
    listens there seconds later.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LocalPortCache, "find_available_port", lambda _self, _ip: free_port())
        yield


@pytest.fixture
def make_job() -> Callable[..., JobView]:
    return _make_job


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def client(api: FakeApi) -> AsyncSchedulerClient:
    return AsyncSchedulerClient(
        "http://scheduler", token="secret-token", transport=httpx.MockTransport(api)
    )


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gc") as name:
        yield Path(name)


Serve = Callable[..., AbstractAsyncContextManager[Served]]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api: FakeApi) -> Serve:
    """Start a server with our extension and these variables."""

    def make_client(url: str, *, token: str) -> AsyncSchedulerClient:
        return AsyncSchedulerClient(url, token=token, transport=httpx.MockTransport(api))

    @asynccontextmanager
    async def start(
        settings: dict[str, Any] | None = None, **environ: str
    ) -> AsyncIterator[Served]:
        for name in ("GPUCOMMONS_URL", "GPUCOMMONS_LEASE_ID", "GPUCOMMONS_SLICE_SOCKET"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv("JUPYTERHUB_USER", raising=False)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(extension, "AsyncSchedulerClient", make_client)
        ours = {"jpserver_extensions": {"gpucommons.labextension": True}}
        async with serving(tmp_path, monkeypatch, {**ours, **(settings or {})}) as found:
            yield found

    return start


@pytest.fixture
async def served(serve: Serve) -> AsyncIterator[Served]:
    async with serve(
        GPUCOMMONS_URL="http://scheduler", JUPYTERHUB_API_TOKEN="secret-token"
    ) as found:
        yield found
