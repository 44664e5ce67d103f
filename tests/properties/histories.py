"""Random histories of a small cluster: what people, processes and machines may do, in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from builders import TRAIN, World, a_job, a_node, a_notebook, a_pool, a_team
from hypothesis import strategies as st
from properties.machines import Machines

from gpucommons.scheduler.core.advance import advance
from gpucommons.scheduler.core.events.job_size import size_of
from gpucommons.scheduler.core.events.leases import RELEASED, SERVER_GONE
from gpucommons.scheduler.core.model.intents import (
    Cancel,
    Intent,
    Pause,
    PutPools,
    ResizeJob,
    Resume,
    SetNodeState,
    SetQuotas,
    Started,
)
from gpucommons.scheduler.core.model.lifecycle import is_final, is_lease, is_remembered
from gpucommons.scheduler.core.model.resources import NodeState, Quota
from gpucommons.scheduler.core.model.state import (
    Cluster,
    NodesObserved,
    Observation,
    Outcome,
    ProgressReported,
)
from gpucommons.scheduler.core.model.types import (
    Kind,
    Millis,
    Progress,
    State,
    TeamName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.errors import SliceClearing
from gpucommons.scheduler.store.memory import MemoryStore

TEAMS = ("nlp", "speech", "vision")
USERS = ("ann", "bob", "cyd")
JOB_SIZES = (125, 250, 300, 500, 1000, 1000, 2000, 4000)
NOTEBOOK_SIZES = (125, 250, 500, 1000, 2000)
WAITS = (1, 1000, 10_000, 30_000, 60_000, 120_000, 600_000)

#: Before which call of those to come the scheduler dies; mostly a commit asks for one or two.
CALLS = (0, 0, 0, 1, 1, 2, 3, 5)

small = st.integers(0, 7)
step = st.one_of(
    st.tuples(st.just("submit"), small, small, small, small),
    st.tuples(st.just("submit"), small, small, small, small),
    st.tuples(st.just("ticket"), small, small, small, small),
    st.tuples(st.just("acquire"), small, small, small, small),
    st.tuples(st.just("wait"), small, small, small, small),
    st.tuples(st.just("wait"), small, small, small, small),
    st.tuples(st.just("finish"), small, small, small, small),
    st.tuples(st.just("crash"), small, small, small, small),
    st.tuples(
        st.sampled_from(
            [
                "stop_server",
                "drop",
                "started",
                "cancel",
                "resize",
                "pause",
                "resume",
                "checkpoint",
                "tell",
                "stubborn",
                "slow",
                "repeat",
                "vanish",
            ]
        ),
        small,
        small,
        small,
        small,
    ),
)
#: What admins and broken machines do as well.
rough = st.one_of(
    step,
    step,
    step,
    st.tuples(
        st.sampled_from(
            ["quota", "node_lost", "gpu_lost", "node_back", "fence", "cordon", "headroom"]
        ),
        small,
        small,
        small,
        small,
    ),
)


def days(of: Any, chapters: int = 7) -> Any:
    """Lists of lists, for one list is mostly shorter than a cluster takes to be full."""
    part = st.lists(of, max_size=7)
    return st.lists(part, max_size=chapters).map(lambda parts: list(chain.from_iterable(parts)))


class Recorded(World):
    """A world whose every step is committed to a store, from which a new scheduler can begin."""

    def __init__(self, *nodes: Any, **more: Any) -> None:
        self.store = MemoryStore()
        self.epoch = self.store.take_lead("scheduler")
        super().__init__(*nodes, **more)

    def step(self, *observations: Observation, intents: Sequence[Intent] = ()) -> Outcome:
        outcome = super().step(*observations, intents=intents)
        if not outcome.changes.empty:
            self.store.commit(self.epoch, outcome.changes)
        return outcome

    def restart(self) -> None:
        """Only what was committed is known, and all of it is."""
        loaded, now_ms = self.store.load(), self.cluster.now_ms
        # Some who are final are remembered for a while, which passes without a commit.
        needed = {
            before
            for one in loaded.workloads.values()
            for before in one.spec.after
            if not is_final(one)
        }
        known = {
            workload_id: one
            for workload_id, one in loaded.workloads.items()
            if not is_final(one) or workload_id in needed or is_remembered(one, now_ms)
        }
        loaded = replace(loaded, workloads=known, now_ms=now_ms)
        assert loaded == replace(
            self.cluster, released=(), pending_resizes={}, fair_share_reservations={}
        )
        self.cluster = loaded


class History:
    """Plays steps; calls ``check`` after every commit."""

    def __init__(
        self,
        check: Callable[[History], None],
        *,
        nodes: tuple[int, ...] = (4, 2),
        headroom: int = 0,
        cpu_milli: int = 64_000,
        min_run_ms: int = 60_000,
        lend_after_ms: int = 0,
        unlent_permille: int = 0,
        quotas: tuple[tuple[int, int, int | None], ...] = (
            (1500, 1000, None),
            (500, 2000, 3000),
            (0, 1000, None),
        ),
    ) -> None:
        self.all_nodes = tuple(
            a_node(f"n{i}", gpus, cpu_milli=cpu_milli) for i, gpus in enumerate(nodes)
        )
        self.world = Recorded(
            *self.all_nodes,
            pools=[
                a_pool(
                    headroom_milli_gpu=headroom,
                    min_run_ms=min_run_ms,
                    lend_after_ms=lend_after_ms,
                    unlent_permille=unlent_permille,
                    notice_ms=10_000,
                    grace_ms=20_000,
                    drills="on",
                )
            ],
            teams=[
                a_team(
                    name, fixed_milli_gpu=fixed, guaranteed_milli_gpu=saved, limit_milli_gpu=limit
                )
                for name, (fixed, saved, limit) in zip(TEAMS, quotas, strict=True)
            ],
        )
        self.machines = Machines(self.world)
        self.check = check
        self.before = self.world.cluster
        self.lost_gpus: set[str] = set()
        #: A scheduler that has just begun asks for all nodes anew.
        self.restarted = False

    def play(self, steps: list[tuple[str, int, int, int, int]]) -> None:
        """Play all steps, a commit and a check after each."""
        for name, *numbers in steps:
            self.before = self.world.cluster
            getattr(self, f"_{name}")(*numbers)
            self._committed()
            self.before = self.world.cluster
            self.world.step(*self.reports())
            self._committed()

    def reports(self) -> list[Observation]:
        """What the scheduler sees now."""
        nodes = [self._nodes()] if self.restarted else []
        self.restarted = False
        return [*nodes, *self.machines.reports()]

    def _committed(self) -> None:
        if not self.machines.act(self.world.outcome.actions):
            self.world.restart()
            self.restarted = True
        self.machines.tick()
        self.check(self)

    def live(self, number: int, *kinds: Kind) -> Workload | None:
        """One of the live workloads."""
        found = [
            workload
            for _, workload in sorted(self.world.cluster.workloads.items())
            if not is_final(workload) and (not kinds or workload.spec.kind in kinds)
        ]
        return found[number % len(found)] if found else None

    def _submit(self, team: int, size: int, shape: int, extra: int) -> None:
        more: dict[str, Any] = {}
        before = self.live(size, Kind.TRAINING, Kind.RETRAIN)
        if shape == 3:
            more = {"not_before_ms": Millis(self.world.now + WAITS[size % len(WAITS)])}
        if shape == 4 and before is not None:
            more = {"after": (before.workload_id,)}
        if shape in {5, 6}:
            more = {"workers": 2 + shape - 5}
        if shape == 7:
            more = {"workers": 3, "min_workers": 1, "max_workers": 4}
        if extra == 1:
            more["over_quota"] = False
        if extra in {2, 3}:
            more["priority"] = ("high", "low")[extra - 2]
        if extra == 4:
            more["kind"] = Kind.RETRAIN
        if extra == 5:
            more["max_restarts"] = 1
        milli = 0 if extra == 6 else JOB_SIZES[size]
        name = f"job-{len(self.world.events)}"
        cpu = 900 if extra == 7 else 100
        spec = a_job(name, milli, team=TeamName(TEAMS[team % 3]), cpu_milli=cpu, **more)
        self.world.try_submit(spec)

    def _ticket(self, team: int, user: int, size: int, _: int) -> None:
        self.world.try_submit(self._notebook(team, user, size))

    def _acquire(self, team: int, user: int, size: int, _: int) -> None:
        spec = self._notebook(team, user, size)
        verdict = self.world.try_submit(spec, redeem=True)
        if verdict.error == SliceClearing.__name__:
            # Who starts the server anew by hand wants what was chosen there.
            self.machines.dropped -= {
                workload_id
                for workload_id, one in self.world.cluster.workloads.items()
                if is_lease(one) and not is_final(one) and one.spec.owner == spec.owner
            }

    def _notebook(self, team: int, user: int, size: int) -> Any:
        return a_notebook(USERS[user % 3], NOTEBOOK_SIZES[size % 5], team=TeamName(TEAMS[team % 3]))

    def _wait(self, number: int, *_: int) -> None:
        self.world.wait(WAITS[number % len(WAITS)])

    def _finish(self, number: int, how: int, *_: int) -> None:
        job = self.live(number, Kind.TRAINING, Kind.RETRAIN)
        if job is not None:
            self.machines.finish(job, (0, 0, 0, 1, -11)[how % 5])

    def _stop_server(self, number: int, *_: int) -> None:
        lease = self.live(number, Kind.NOTEBOOK)
        if lease is not None:
            self.world.step(*self.machines.stop_server(lease))

    def _drop(self, number: int, *_: int) -> None:
        """*Drop to CPU*."""
        lease = self.live(number, Kind.NOTEBOOK)
        if lease is None or lease.current is None or lease.redeem_by_ms is not None:
            return
        stop = lease.current.stop
        if stop is None or stop.why not in {*SERVER_GONE, RELEASED}:
            self.machines.dropped.add(lease.workload_id)
        self.world.ask(Cancel(workload_id=lease.workload_id, why="released"))

    def _started(self, number: int, *_: int) -> None:
        lease = self.live(number, Kind.NOTEBOOK)
        if lease is not None:
            self.world.ask(Started(workload_id=lease.workload_id))

    def _cancel(self, number: int, *_: int) -> None:
        self._ask_of_job(number, lambda job: Cancel(workload_id=job))

    def _pause(self, number: int, *_: int) -> None:
        self._ask_of_job(number, lambda job: Pause(workload_id=job))

    def _resume(self, number: int, *_: int) -> None:
        self._ask_of_job(number, lambda job: Resume(workload_id=job))

    def _resize(self, number: int, size: int, count: int, *_: int) -> None:
        milli_gpu, workers = JOB_SIZES[size], 1 + count % 3

        def asked(job: WorkloadId) -> ResizeJob:
            now = size_of(self.world.cluster.workloads[job].spec)
            low, high = now.min_workers, now.max_workers
            size = replace(
                now,
                milli_gpu=milli_gpu if now.milli_gpu else 0,
                workers=workers,
                min_workers=None if low is None else min(low, workers),
                max_workers=None if high is None else max(high, workers),
            )
            return ResizeJob(workload_id=job, size=size)

        self._ask_of_job(number, asked)

    def _ask_of_job(self, number: int, action: Callable[[WorkloadId], Any]) -> None:
        job = self.live(number, Kind.TRAINING, Kind.RETRAIN)
        if job is not None:
            self.world.ask(action(job.workload_id))

    def _checkpoint(self, number: int, step_number: int, *_: int) -> None:
        job = self.live(number, Kind.TRAINING, Kind.RETRAIN)
        report = None if job is None else self.machines.checkpoint(job, step_number)
        if report is not None:
            self.world.step(report)

    def _tell(self, number: int, step_number: int, *_: int) -> None:
        job = self.live(number, Kind.TRAINING, Kind.RETRAIN)
        if job is not None and job.current is not None:
            progress = Progress(step=step_number, at_ms=self.world.now)
            self.world.step(ProgressReported(attempt_id=job.current.attempt_id, progress=progress))

    def _vanish(self, number: int, done: int, *_: int) -> None:
        job = self.live(number, Kind.TRAINING, Kind.RETRAIN)
        if job is not None:
            self.machines.vanish(job, done=done % 2 == 1)

    def _stubborn(self, number: int, *_: int) -> None:
        alive = [one for one in self.machines.processes.values() if one.alive]
        if alive:
            alive[number % len(alive)].stubborn = True

    def _slow(self, number: int, *_: int) -> None:
        self.machines.slow = number % 2 == 0

    def _crash(self, calls: int, *_: int) -> None:
        """The scheduler dies after so many more calls: after a commit, or in the middle of its acts."""
        self.machines.fuse = CALLS[calls]

    def _repeat(self, *_: int) -> None:
        """The same reports twice; acts twice."""
        self.world.step(*self.machines.reports(), *self.machines.reports())
        self._committed()

    def _quota(self, team: int, fixed: int, guaranteed: int, limit: int) -> None:
        quota = Quota(
            fixed_milli_gpu=fixed * 500,
            guaranteed_milli_gpu=guaranteed * 500,
            limit_milli_gpu=None if limit > 3 else 1000 * (limit + guaranteed),
        )
        self.world.ask(SetQuotas(quotas={(TeamName(TEAMS[team % 3]), TRAIN): quota}), "admin")

    def _headroom(self, size: int, *_: int) -> None:
        pool = self.world.cluster.pools[TRAIN]
        changed = replace(pool, headroom_milli_gpu=size * 125)
        self.world.ask(PutPools(pools=(changed,)), "admin")

    def _nodes(self) -> NodesObserved:
        seen = tuple(
            replace(
                node, devices=tuple(d for d in node.devices if d.device_id not in self.lost_gpus)
            )
            for node in self.all_nodes
            if node.node_id not in self.machines.away
        )
        return NodesObserved(executor="fake", nodes=seen)

    def _observe_nodes(self) -> None:
        self.world.step(self._nodes())

    def _node_lost(self, number: int, *_: int) -> None:
        self.machines.away.add(self.all_nodes[number % len(self.all_nodes)].node_id)
        self._observe_nodes()

    def _gpu_lost(self, number: int, which: int, *_: int) -> None:
        """A node no longer has one of its GPUs."""
        devices = self.all_nodes[number % len(self.all_nodes)].devices
        self.lost_gpus.add(devices[which % len(devices)].device_id)
        self._observe_nodes()

    def _node_back(self, number: int, *_: int) -> None:
        """With all that it had."""
        found = self.all_nodes[number % len(self.all_nodes)]
        node = found.node_id
        self.machines.away.discard(node)
        self.machines.fenced.discard(node)
        self.lost_gpus -= {device.device_id for device in found.devices}
        self._observe_nodes()
        self.world.ask(SetNodeState(node_id=node, state=NodeState.READY), "admin")

    def _fence(self, number: int, *_: int) -> None:
        """An admin fences a lost node: by then its processes and servers are really gone."""
        node = self.all_nodes[number % len(self.all_nodes)].node_id
        if node not in self.machines.away:
            return
        for workload in self.world.cluster.workloads.values():
            current = workload.current
            if current is None or node not in {one.node_id for one in current.placements}:
                continue
            if is_lease(workload):
                self.machines.down.setdefault(workload.workload_id, self.world.now)
        self.machines.fence(node)
        self.world.ask(SetNodeState(node_id=node, state=NodeState.FENCED), "admin")

    def _cordon(self, number: int, *_: int) -> None:
        node = self.all_nodes[number % len(self.all_nodes)].node_id
        if self.world.cluster.nodes[node].state is NodeState.READY:
            self.world.ask(SetNodeState(node_id=node, state=NodeState.CORDONED), "admin")

    def state(self, workload_id: WorkloadId) -> State:
        """Where a workload stands."""
        return self.world.state(workload_id)


def as_well_as(
    other: Callable[..., Outcome], compared: Callable[[Outcome], Any] = lambda one: one
) -> Callable[..., Outcome]:
    """In place of ``advance``: both have to decide the same, as far as it is ``compared``."""

    def both(cluster: Cluster, *asked: Any, new_ids: Iterator[str], **more: Any) -> Outcome:
        drawn: list[str] = []

        def noting() -> Iterator[str]:
            for one in new_ids:
                drawn.append(one)
                yield one

        theirs = other(cluster, *asked, new_ids=noting(), **more)
        ours = advance(cluster, *asked, new_ids=chain(drawn, new_ids), **more)
        assert compared(ours) == compared(theirs)
        return ours

    return both
