"""A whole scheduler in one process and in virtual time: real loop, real core, no threads.

Every wish is decided before the call that made it returns, so tests read like conversations.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import httpx
from builders import T0, a_node
from fastapi import FastAPI

from gpucommons.gpu.client.agent_client import SliceReading
from gpucommons.gpu.errors import CannotShrink, GpuError, UnknownSlice
from gpucommons.gpu.slices.slices import GpuSlice, SliceId
from gpucommons.gpu.slices.usage import UsageSample
from gpucommons.scheduler import models
from gpucommons.scheduler.api.app import ApiSettings, create_app
from gpucommons.scheduler.api.authentication import (
    AttemptAuthenticator,
    FirstAuthenticator,
    HubAuthenticator,
    MetricsAuthenticator,
)
from gpucommons.scheduler.core.model.actions import StartServer, StopServer
from gpucommons.scheduler.core.model.demand import every_size
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.state import Cluster, Observation
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    Millis,
    NodeId,
    UserName,
    Workload,
)
from gpucommons.scheduler.executors.base import Executor as JobExecutor
from gpucommons.scheduler.executors.fake import FakeExecutor, FakeWorld, Script
from gpucommons.scheduler.file_storage.job_files import JobFiles
from gpucommons.scheduler.files.log_reader import LogChunk
from gpucommons.scheduler.files.snapshots import Snapshots
from gpucommons.scheduler.hub.attempt_tokens import attempt_of, token_of
from gpucommons.scheduler.hub.hub import Hub
from gpucommons.scheduler.ids import IdSource
from gpucommons.scheduler.loop.loop import Loop, Surroundings
from gpucommons.scheduler.principal import Identity, Principal, PrincipalKind, read_rights, resolve
from gpucommons.scheduler.service.administration import settings
from gpucommons.scheduler.service.in_memory.activity import ActivityBoard
from gpucommons.scheduler.service.in_memory.slices import Slices
from gpucommons.scheduler.service.jobs import snapshots
from gpucommons.scheduler.service.service import Pending, Service, ServiceSettings
from gpucommons.scheduler.store.memory import MemoryStore
from gpucommons.scheduler.tracing import switch

if TYPE_CHECKING:
    from gpucommons.scheduler.tracing.tracing import Tracing

T = TypeVar("T")
KEY = b"k" * 32
METRICS_TOKEN = "metrics-token"
#: Pauses as short as a test's patience.
PAUSES = {"notice_s": 10, "grace_s": 10, "min_run_s": 60, "lend_after_s": 0}
#: Of a transformer, as a job declares it.
A_TRAINING: Mapping[str, Any] = {
    "network": {
        "kind": "transformer",
        "layers": 24,
        "hidden": 1024,
        "heads": 16,
        "vocabulary": 50_000,
        "tied": True,
    },
    "batch": 512,
    "sequence": 1024,
    "steps": 1000,
}
CONFIG: Mapping[str, Any] = {
    "pools": [
        {"name": "gpu", "executor": "fake", **PAUSES},
        {"name": "cpu", "executor": "fake"},
    ],
    "teams": [
        {
            "name": "vision",
            "members": ["ann", "ada", "alf"],
            "leads": ["ada"],
            "quotas": {"gpu": {"fixed_milli_gpu": 1000, "guaranteed_milli_gpu": 1000}},
        },
        {
            "name": "nlp",
            "groups": ["nlp-people"],
            "leads": ["nora"],
            "quotas": {"gpu": {"fixed_milli_gpu": 1000, "guaranteed_milli_gpu": 1000}},
        },
    ],
}
NODES = (a_node("n1", 4, pool="gpu"), a_node("c1", 0, pool="cpu"))
SUBMIT, ADMIN, LEASE = (f"custom:gpucommons:{verb}" for verb in ("submit", "admin", "lease"))


class InlineLoop(Loop):
    """Decides at once, in the thread of whoever asks."""

    _turn = threading.RLock()

    def wake(self) -> None:
        with self._turn:
            self.cycle()

    def observe(self, observation: Observation) -> None:
        super().observe(observation)
        self.wake()


class FakeAgent:
    """A node agent that believes what it is told."""

    def __init__(self) -> None:
        self.opened: dict[SliceId, GpuSlice] = {}
        self.bound: dict[SliceId, list[int]] = {}
        self.samples: tuple[UsageSample, ...] = ()
        self.in_use_mib = 0
        self.memory = "first"
        #: Slices that may use nothing; who does all the same; what it answers when it is asked.
        self.parked: set[SliceId] = set()
        self.on_devices: tuple[int, ...] = ()
        self.away: GpuError | None = None
        #: Processes that are found in a slice that was used before it was opened.
        self.unknown: list[int] = []

    def open(self, gpu_slice: GpuSlice, *, used: bool = False) -> None:
        if used and gpu_slice.slice_id not in self.opened:
            self.bound[gpu_slice.slice_id] = list(self.unknown)
        self.opened.setdefault(gpu_slice.slice_id, gpu_slice)
        self.parked.discard(gpu_slice.slice_id)

    def park(self, slice_id: SliceId) -> tuple[int, ...]:
        if self.away is not None:
            raise self.away
        self.parked.add(slice_id)
        return self.on_devices

    def resize(self, slice_id: SliceId, memory_mib: int) -> None:
        if memory_mib < self.in_use_mib:
            raise CannotShrink(used_mib=self.in_use_mib, wanted_mib=memory_mib)
        self.opened[slice_id] = replace(self.opened[slice_id], memory_mib=memory_mib)

    def bind(self, slice_id: SliceId, pid: int) -> None:
        self.bound.setdefault(slice_id, []).append(pid)

    def close_slice(self, slice_id: SliceId) -> None:
        self.opened.pop(slice_id, None)
        self.bound.pop(slice_id, None)

    def reading(self, slice_id: SliceId) -> SliceReading:
        if slice_id not in self.opened:
            raise UnknownSlice
        return SliceReading(sample=None, pids=tuple(self.bound.get(slice_id, ())))

    def usage(self) -> tuple[UsageSample, ...]:
        return self.samples

    def memories(self) -> dict[NodeId, str]:
        return {NodeId("n1"): self.memory}

    def slices(self) -> tuple[GpuSlice, ...]:
        return tuple(self.opened.values())


class FakeDirectory:
    """Groups of users, as the hub knows them."""

    def __init__(self) -> None:
        self.groups: dict[str, frozenset[str]] = {"bob": frozenset({"nlp-people"})}

    def knows(self, user: UserName) -> bool:
        return True

    def groups_of(self, user: UserName) -> frozenset[str]:
        return self.groups.get(user, frozenset())


class OnDemand(Executor):
    """A pool without threads: what it is given is done at once, or when a test says so."""

    def __init__(self, *, waits: bool = False) -> None:
        self._waits = waits
        self._line: deque[Callable[[], object]] = deque()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        self._line.append(lambda: fn(*args, **kwargs))
        if not self._waits:
            self.run_one()
        return Future()

    def run_one(self) -> None:
        self._line.popleft()()

    @property
    def waiting(self) -> int:
        return len(self._line)


class ServiceWorld:
    """One scheduler, its clock, its machine, and people who talk to it."""

    def __init__(
        self,
        folder: Path,
        *,
        config: Mapping[str, Any] = CONFIG,
        nodes: Sequence[Node] = NODES,
        files: JobFiles | None = None,
        executor: str = "fake",
        executors: Mapping[str, JobExecutor] | None = None,
        random_bits: Callable[[int], int] = secrets.randbits,
        tracing: Tracing | None = None,
    ) -> None:
        self.now_ms = T0
        self.tracing = tracing
        self.store = MemoryStore()
        self.script = Script(lines=("hello",))
        self.machine = FakeWorld(
            now=lambda: self.now_ms, nodes=tuple(nodes), script_of=lambda _: self.script
        )
        self.executor = FakeExecutor(self.machine)
        self.server_acts: list[tuple[str, str]] = []
        ids = IdSource(lambda: self.now_ms, random_bits)
        around = Surroundings(
            store=self.store,
            executors={"fake": self.executor} if executors is None else executors,
            now=lambda: self.now_ms,
            new_ids=ids,
            token_of=lambda attempt_id: token_of(KEY, attempt_id),
            api_url="http://127.0.0.1:1",
            on_server_act=self._server_act,
        )
        self.loop = InlineLoop(switch.traced(around, tracing))
        switch.follow(self.loop, tracing)
        self.loop.open()
        self.loop.cycle()
        self.agent = FakeAgent()
        self.directory = FakeDirectory()
        self.service = Service(
            store=self.store,
            loop=self.loop,
            logs=self,
            directory=self.directory,
            snapshots=Snapshots(folder / "snapshots"),
            activity=ActivityBoard(),
            slices=Slices(self.agent, cluster=lambda: self.loop.cluster, observe=self.loop.observe),
            why_not=every_size,
            now_ms=lambda: self.now_ms,
            new_ids=ids,
            settings=ServiceSettings(executors=(executor,)),
            files={} if files is None else {"fake": files},
        )
        if config:
            admin = self.principal("root", ADMIN)
            done(settings.put_config(self.service, admin, models.ConfigModel(**config)))

    def _server_act(self, act: StartServer | StopServer, workload: Workload) -> None:
        self.server_acts.append((type(act).__name__, workload.spec.owner))

    def read(self, workload: Workload, attempt: Attempt, *, rank: int, offset: int) -> LogChunk:
        return self.executor.log(attempt, rank=rank, offset=offset, limit_bytes=1 << 16)

    def bring(self, content: bytes = b"", *, by: str = "ann") -> str:
        """Upload a snapshot as somebody; returns its hash."""
        sha256 = hashlib.sha256(content).hexdigest()
        with snapshots.receive(self.service, self.principal(by), sha256) as taking:
            taking.write(content)
            snapshots.finish(self.service, self.principal(by), sha256, taking)
        return sha256

    @property
    def cluster(self) -> Cluster:
        return self.loop.cluster

    def pass_time(self, milliseconds: int) -> None:
        """Let time go by, and the loop decide."""
        self.now_ms = Millis(self.now_ms + milliseconds)
        self.loop.cycle()

    def principal(
        self, name: str, *scopes: str, kind: PrincipalKind = PrincipalKind.USER
    ) -> Principal:
        identity = Identity(
            name=UserName(name),
            kind=kind,
            groups=self.directory.groups_of(UserName(name)),
            rights=read_rights(scopes or (f"{SUBMIT}!user={name}",)),
        )
        return resolve(identity, self.cluster.teams)

    @property
    def hub_service(self) -> Principal:
        return self.principal("gpucommons-spawner", LEASE, kind=PrincipalKind.HUB_SERVICE)

    @property
    def culler(self) -> Principal:
        return self.principal("gpucommons-culler", LEASE, kind=PrincipalKind.CULLER)

    @property
    def admin(self) -> Principal:
        return self.principal("root", ADMIN)


def done(pending: Pending[Any]) -> Any:
    """The answer of something that the inline loop has decided already."""
    found = pending.probe()
    return pending.give_up() if found is None else found


def a_request(**changes: Any) -> models.JobRequest:
    role = {"command": ["python", "train.py"], **changes.pop("role", {})}
    return models.JobRequest(**{"name": "digits", "roles": [role], **changes})


# --- the API over it -------------------------------------------------------------------------

#: Tokens of a fake hub: the model it answers ``GET /user`` with.
TOKENS: dict[str, dict[str, Any]] = {
    "ann-token": {"kind": "user", "name": "ann", "scopes": [f"{SUBMIT}!user=ann"]},
    "ann-reads": {"kind": "user", "name": "ann", "scopes": ["custom:gpucommons:read!user=ann"]},
    "alf-token": {"kind": "user", "name": "alf", "scopes": [f"{SUBMIT}!user=alf"]},
    "ada-token": {"kind": "user", "name": "ada", "scopes": [f"{SUBMIT}!user=ada"]},
    "ada-reads": {"kind": "user", "name": "ada", "scopes": ["custom:gpucommons:read!user=ada"]},
    "bob-token": {
        "kind": "user",
        "name": "bob",
        "groups": ["nlp-people"],
        "scopes": [f"{SUBMIT}!user=bob"],
    },
    "root-token": {"kind": "user", "name": "root", "scopes": [ADMIN]},
    "plain-token": {"kind": "user", "name": "ann", "scopes": ["users:activity!user=ann"]},
    "hub-token": {"kind": "service", "name": "gpucommons-spawner", "scopes": [LEASE]},
    "culler-token": {"kind": "service", "name": "gpucommons-culler", "scopes": [LEASE]},
    "prometheus-token": {"kind": "service", "name": "prometheus", "scopes": ["read:metrics"]},
}


class FakeHubServer:
    """JupyterHub's API as far as tokens go."""

    def __init__(self, tokens: dict[str, dict[str, Any]] | None = None) -> None:
        self.tokens = dict(TOKENS if tokens is None else tokens)
        self.asked: list[str] = []
        self.status: int | None = None

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(f"{request.method} {request.url.path}")
        token = request.headers["Authorization"].removeprefix("token ")
        if self.status is not None:
            return httpx.Response(self.status)
        if token not in self.tokens:
            return httpx.Response(403, json={"status": 403, "message": "Forbidden"})
        return httpx.Response(200, json=self.tokens[token])

    def hub(self) -> Hub:
        return Hub("http://hub/hub/api", token="service", transport=httpx.MockTransport(self))


def an_app(world: ServiceWorld, hub: FakeHubServer | None = None, **options: Any) -> FastAPI:
    authenticators = FirstAuthenticator(
        [
            AttemptAuthenticator(
                lambda token: attempt_of(KEY, token),
                prefix="gca-",
                refused=world.service.refused_reports,
            ),
            MetricsAuthenticator(METRICS_TOKEN),
            HubAuthenticator((hub or FakeHubServer()).hub(), now_ms=lambda: world.now_ms),
        ]
    )
    spans = None if world.tracing is None else world.tracing.requests
    return create_app(world.service, authenticators, settings=ApiSettings(**options), spans=spans)


def attempt_token(attempt_id: str) -> str:
    return token_of(KEY, AttemptId(attempt_id))
