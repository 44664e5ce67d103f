"""A day of five people with a lab's GPUs and a cloud's, in virtual time: service, loop and core are the real ones.

Played are the machines, the clock and the autoscaler: it brings a node a boot after a placeholder asks for
it, and takes one that was idle for so long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builders import a_node
from service_world import PAUSES, ServiceWorld, a_request, done

from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.budgets import Budgets
from gpucommons.scheduler.background_tasks.scale_up import PeriodicScaleUp
from gpucommons.scheduler.core.model.demand import placed_milli_gpu
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.types import (
    NodeId,
    PoolName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.forecast.estimating import Budget, estimate
from gpucommons.scheduler.forecast.runs import History
from gpucommons.scheduler.service import leases
from gpucommons.scheduler.service.administration.budgets import states
from gpucommons.scheduler.service.jobs import jobs

LAB, CLOUD = PoolName("lab"), PoolName("cloud")
TICK_MS, MINUTE_MS = 10_000, 60_000
BOOT_MS, IDLE_MS = 240_000, 600_000
#: Notice, grace, and the tick in which their end is seen.
WON_BACK_MS = (PAUSES["notice_s"] + PAUSES["grace_s"]) * 1000 + TICK_MS
NLP_BUDGET = 25.0
CONFIG: Mapping[str, Any] = {
    "pools": [
        {
            "name": "lab",
            "executor": "fake",
            "gpu_kind": "A100-40",
            "currency": "EUR",
            "prices": [{"per_gpu_h": 0.90}],
            **PAUSES,
        },
        {
            "name": "cloud",
            "executor": "fake",
            "gpu_kind": "A100-40",
            "currency": "EUR",
            "prices": [{"per_gpu_h": 3.20}],
            "growth": {
                "max_nodes": 2,
                "gpus": 4,
                "cpu_milli": 64_000,
                "memory_mib": 262_144,
                "boot_s": BOOT_MS // 1000,
            },
            **PAUSES,
        },
        {"name": "cpu", "executor": "fake"},
    ],
    "teams": [
        {
            "name": "vision",
            "members": ["ann", "ada"],
            "quotas": {
                "lab": {"fixed_milli_gpu": 1000, "guaranteed_milli_gpu": 3000},
                "cloud": {"limit_milli_gpu": 8000},
            },
        },
        {
            "name": "nlp",
            "members": ["bob", "nora"],
            "quotas": {
                "lab": {"fixed_milli_gpu": 1000, "guaranteed_milli_gpu": 2000},
                "cloud": {"limit_milli_gpu": 4000},
            },
            "budget": {"money": NLP_BUDGET, "at_full": "no-borrow"},
        },
        {
            "name": "robots",
            "members": ["eve"],
            "quotas": {
                "lab": {"guaranteed_milli_gpu": 1000},
                "cloud": {"limit_milli_gpu": 8000},
            },
            "policy": {"max_price": 1.00},
        },
    ],
}
CLOUD_LIMITS = {
    team["name"]: 0 if "policy" in team else team["quotas"]["cloud"]["limit_milli_gpu"]
    for team in CONFIG["teams"]
}
LAB_NODES = (
    a_node("lab-1", 4, pool="lab"),
    a_node("lab-2", 4, pool="lab"),
    a_node("cpu-1", 0, pool="cpu"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What somebody does at a minute of the day."""

    minute: int
    who: str
    name: str
    milli_gpu: int
    #: 0 = a notebook, until it is closed.
    run_minutes: int = 0
    workers: int = 1
    pools: tuple[str, ...] = ("lab", "cloud")


DAY = (
    Wish(minute=0, who="ann", name="notebook", milli_gpu=1000),
    Wish(minute=2, who="bob", name="notebook", milli_gpu=500),
    Wish(minute=5, who="ada", name="pretrain", milli_gpu=2000, workers=3, run_minutes=150),
    Wish(minute=20, who="nora", name="tokens", milli_gpu=1000, run_minutes=60),
    Wish(minute=20, who="nora", name="tokens-2", milli_gpu=1000, run_minutes=60),
    Wish(minute=30, who="eve", name="clean", milli_gpu=0, run_minutes=45, pools=("cpu",)),
    Wish(minute=40, who="eve", name="grasp", milli_gpu=1000, run_minutes=120),
    Wish(minute=60, who="eve", name="grasp-wide", milli_gpu=4000, run_minutes=60),
    Wish(minute=70, who="nora", name="translate", milli_gpu=4000, run_minutes=90),
    Wish(minute=72, who="nora", name="notebook", milli_gpu=500),
    Wish(minute=75, who="ann", name="segment", milli_gpu=4000, run_minutes=60),
    Wish(minute=100, who="bob", name="summaries", milli_gpu=1000, run_minutes=30, pools=("cloud",)),
    Wish(
        minute=180, who="nora", name="translate-2", milli_gpu=4000, run_minutes=60, pools=("cloud",)
    ),
    Wish(minute=200, who="ada", name="finetune", milli_gpu=1000, run_minutes=40),
    Wish(minute=210, who="bob", name="evaluate", milli_gpu=1000, run_minutes=30),
    Wish(minute=280, who="ann", name="ablate", milli_gpu=1000, run_minutes=90, pools=("cloud",)),
    Wish(minute=290, who="ann", name="ablate-2", milli_gpu=1000, run_minutes=60, pools=("cloud",)),
    Wish(minute=300, who="nora", name="late", milli_gpu=4000, run_minutes=30),
    Wish(minute=310, who="bob", name="nightly", milli_gpu=1000, run_minutes=30),
)
LASTS_MINUTES = 480


@dataclass(kw_only=True, slots=True)
class Job:
    """What became of a wish."""

    wish: Wish
    id: WorkloadId
    asked_ms: int
    #: When it got what it needs: more than once where it was stopped.
    starts_ms: list[int] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    nodes: list[NodeId] = field(default_factory=list)
    holds: list[str] = field(default_factory=list)
    #: What the forecast said when a node was on its way to it: from then on, and when that was.
    said_ms: tuple[int | None, ...] = ()
    said_at_ms: int = 0
    reason: str = ""

    @property
    def waited_ms(self) -> int:
        return self.starts_ms[0] - self.asked_ms


class Autoscaler:
    """What Karpenter or the cluster autoscaler does with placeholders and idle nodes."""

    def __init__(self, world: ServiceWorld, scale_up: PeriodicScaleUp) -> None:
        self._world = world
        self._scale_up = scale_up
        self._booting: list[int] = []
        self._idle_since_ms: dict[NodeId, int] = {}
        self._made = 0
        #: Most nodes at a time, and the milliseconds of each node that was paid for.
        self.most = 0
        self.node_ms = 0
        self.taken = 0

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(node for node in self._world.machine.nodes if node.pool == CLOUD)

    def tick(self) -> None:
        now_ms = self._world.now_ms
        self.node_ms += TICK_MS * len(self.nodes)
        seen = self._world.cluster.nodes
        unseen = sum(node.node_id not in seen for node in self.nodes)
        wanted = (self._scale_up.missing() or {}).get(CLOUD, 0) - unseen
        self._booting = self._booting[: max(0, wanted)]
        self._booting += [now_ms + BOOT_MS] * (wanted - len(self._booting))
        for _ in [due for due in self._booting if due <= now_ms]:
            self._booting.pop(0)
            self._made += 1
            self._keep(*self.nodes, a_node(f"cloud-{self._made}", 4, pool="cloud"))
        self._take_idle_ones()
        self.most = max(self.most, len(self.nodes) + len(self._booting))

    def _take_idle_ones(self) -> None:
        now_ms = self._world.now_ms
        used = {one.node_id for _, one in placements(self._world)}
        idle = {
            node.node_id: self._idle_since_ms.get(node.node_id, now_ms)
            for node in self.nodes
            if node.node_id not in used
        }
        gone = {name for name, since_ms in idle.items() if now_ms - since_ms >= IDLE_MS}
        self.taken += len(gone)
        self._idle_since_ms = idle
        self._keep(*(node for node in self.nodes if node.node_id not in gone))

    def _keep(self, *cloud: Node) -> None:
        self._world.machine.nodes = (*LAB_NODES, *cloud)


@dataclass(kw_only=True, slots=True)
class Seen:
    """What was looked at in each tick."""

    #: Anything that a promise forbids, in words.
    broken: list[str] = field(default_factory=list)
    #: What each team held in each pool, counted apart from the scheduler's own ledger.
    milli_gpu_ms: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: Who opened a notebook, in the order in which they had it.
    opened: list[str] = field(default_factory=list)
    #: When the budget of nlp was found used up, and what was spent by then.
    full_ms: int | None = None
    spent_at_full: float = 0.0


class Day:
    """Plays :data:`DAY` to its end."""

    def __init__(self, folder: Path) -> None:
        self.world = ServiceWorld(folder, config=CONFIG, nodes=LAB_NODES)
        self.world.machine.script_of = self._script
        self.began_ms = self.world.now_ms
        self.scale_up = PeriodicScaleUp(
            lambda: self.world.cluster,
            lambda: self.world.now_ms,
            lambda: self.world.now_ms / 1000,
        )
        self.autoscaler = Autoscaler(self.world, self.scale_up)
        self.budgets = Budgets(self.world.service)
        self.seen = Seen()
        self.jobs: dict[str, Job] = {}
        self._left = list(DAY)

    def _script(self, launch: Launch) -> Script:
        # Names are made unique by a number.
        name = launch.workload.spec.name.rpartition("-")[0]
        minutes = next(one.run_minutes for one in DAY if one.name == name)
        return Script(run_ms=minutes * MINUTE_MS)

    @property
    def minute(self) -> float:
        return (self.world.now_ms - self.began_ms) / MINUTE_MS

    def play(self) -> Day:
        while self.minute < LASTS_MINUTES:
            while self._left and self._left[0].minute <= self.minute:
                self._ask(self._left.pop(0))
            self.scale_up.step()
            self.autoscaler.tick()
            self.budgets.step()
            self._look()
            self.world.pass_time(TICK_MS)
        return self

    # --- what people do ----------------------------------------------------------------------

    def _ask(self, wish: Wish) -> None:
        if wish.name == "notebook":
            self._open(wish)
            return
        role = {"milli_gpu": wish.milli_gpu, "count": wish.workers, "command": ["train"]}
        request = a_request(name=wish.name, pools=list(wish.pools), role=role)
        view = jobs.submit(self.world.service, self.world.principal(wish.who), request, key=None)
        self.jobs[wish.name] = Job(wish=wish, id=WorkloadId(view.id), asked_ms=self.world.now_ms)

    def _open(self, wish: Wish) -> None:
        world = self.world
        ask = models.LeaseRequest(user=wish.who, milli_gpu=wish.milli_gpu, pool="lab")
        # Refused where it could not start at once.
        held = done(leases.acquire(world.service, world.hub_service, ask, key=None))
        self.seen.opened.append(wish.who)
        done(leases.started(world.service, world.hub_service, held.id, models.StartedReport()))

    # --- what is looked at -------------------------------------------------------------------

    def _look(self) -> None:
        self._look_at_devices()
        self._look_at_teams()
        for job in self.jobs.values():
            self._look_at_job(job)
        full = any(team.budget_spent for team in self.world.cluster.teams.values())
        if full and self.seen.full_ms is None:
            self.seen.full_ms = self.world.now_ms
            self.seen.spent_at_full = self.spent()["nlp"].spent_money or 0.0

    def _look_at_devices(self) -> None:
        held: Counter[str] = Counter()
        for _, placement in placements(self.world):
            for device in placement.device_ids:
                held[device] += placement.milli_gpu
        self.seen.broken += [
            f"{device} holds {used}" for device, used in held.items() if used > 1000
        ]
        growth = self.world.cluster.pools[CLOUD].growth
        assert growth is not None
        if len(self.autoscaler.nodes) > growth.max_nodes:
            self.seen.broken.append(f"{len(self.autoscaler.nodes)} cloud nodes")

    def _look_at_teams(self) -> None:
        used: Counter[tuple[str, str]] = Counter()
        for workload, placement in placements(self.world):
            pool = self.world.cluster.nodes[placement.node_id].pool
            used[workload.spec.team, pool] += placed_milli_gpu(placement)
        for (team, pool), milli_gpu in used.items():
            self.seen.milli_gpu_ms[team, pool] += milli_gpu * TICK_MS
            if pool == CLOUD and milli_gpu > CLOUD_LIMITS[team]:
                self.seen.broken.append(f"{team} holds {milli_gpu} in {pool}")

    def _look_at_job(self, job: Job) -> None:
        found = self.world.cluster.workloads.get(job.id)
        if found is None:
            return
        attempt = found.current
        if attempt is not None and len(job.starts_ms) < len(found.attempts):
            node = self.world.cluster.nodes[attempt.placements[0].node_id]
            job.starts_ms.append(self.world.now_ms)
            job.places.append(node.pool)
            job.nodes.append(node.node_id)
            job.holds.append(attempt.hold_class.value)
        if attempt is None and found.reason is not None:
            job.reason = found.reason.text
            self._note_forecast(job)

    def _note_forecast(self, job: Job) -> None:
        upcoming = self.scale_up.upcoming()
        if job.said_ms or not upcoming or CLOUD not in job.wish.pools:
            return
        playing = estimate(self.world.cluster, History(()), Budget(futures=2), upcoming=upcoming)
        while True:
            try:
                next(playing)
            except StopIteration as told:
                job.said_ms = tuple(told.value.waits.get(job.id, ()))
                job.said_at_ms = self.world.now_ms
                return

    def spent(self) -> dict[str, models.BudgetView]:
        """Each team's month so far."""
        return {one.team: one for one in states(self.world.service)}


def placements(world: ServiceWorld) -> Iterator[tuple[Workload, Any]]:
    """Every part of a node that anybody holds."""
    for workload in world.cluster.workloads.values():
        if workload.current is not None:
            for placement in workload.current.placements:
                yield workload, placement


WORDS = {"over-quota": "borrowed", "guaranteed": "guaranteed", "cpu": "without a GPU"}


def table(day: Day) -> str:
    """The day as a page of the documentation shows it."""
    rows = [
        "| asked at | who | what | GPUs | began | where | as |",
        "|---|---|---|---|---|---|---|",
    ]
    for job in day.jobs.values():
        wish = job.wish
        gpus = (
            f"{wish.workers} × {wish.milli_gpu // 1000}"
            if wish.workers > 1
            else str(wish.milli_gpu // 1000)
        )
        began = [_after(start - job.asked_ms) for start in job.starts_ms] or ["not on this day"]
        rows.append(
            f"| {_clock(wish.minute)} | {wish.who} | {wish.name} | {gpus} | {', again '.join(began)} |"
            f" {', then '.join(dict.fromkeys(job.places)) or '–'} |"
            f" {', then '.join(WORDS[hold] for hold in dict.fromkeys(job.holds)) or '–'} |"
        )
    return "\n".join(rows)


def costs(day: Day) -> str:
    """What each team held and paid."""
    rows = ["| team | GPU-hours | of them in the cloud | EUR |", "|---|---|---|---|"]
    for team, found in day.spent().items():
        cloud = day.seen.milli_gpu_ms[team, "cloud"] / 3_600_000_000
        rows.append(
            f"| {team} | {found.spent_gpu_hours:.1f} | {cloud:.1f} | {found.spent_money:.2f} |"
        )
    return "\n".join(rows)


def facts(day: Day) -> tuple[str, ...]:
    """What else the page says of the day."""
    assert day.seen.full_ms is not None
    full = (day.seen.full_ms - day.began_ms) // MINUTE_MS
    return (
        f"used up at {_clock(full)}, with {day.seen.spent_at_full:.2f} EUR spent",
        f"{day.autoscaler.node_ms / 3_600_000:.1f} node-hours",
    )


def _clock(minute: int) -> str:
    return f"{8 + minute // 60:02}:{minute % 60:02}"


def _after(waited_ms: int) -> str:
    if waited_ms == 0:
        return "at once"
    seconds = waited_ms // 1000
    return f"after {seconds} s" if seconds < 60 else f"after {seconds // 60} min"
