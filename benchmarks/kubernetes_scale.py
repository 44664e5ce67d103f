"""How fast a whole cluster is filled and won back, through a real Kubernetes control plane.

``python -m benchmarks.kubernetes_scale --json OUT`` starts a control plane (etcd, API server,
controller-manager, scheduler) and 500 simulated nodes with eight GPUs each, and lets the scheduler's
own loop, on its SQLite store, run jobs there. One line per shape, after KAI's published ones:

* ``fill``: jobs of one GPU onto an empty cluster, until all run (as many as there are GPUs, or
  ``--jobs``, and then no other shape); again on twice the nodes.
* ``reclaim-one``: on the full cluster another team takes one guaranteed GPU back.
* ``reclaim-all``: that team takes all of them back, job by job.
* ``gang``: a job of half as many one-GPU workers as there are GPUs starts whole on a full cluster.

A shape that is not done within ``--limit-s`` is broken off: its line says how far it came, and what builds
on it is left out. Each line is printed and written as soon as it is known.

``api_requests_per_job`` are requests of our own account per job admitted in the shape, and
``scheduler_rss_mib`` is the most that the scheduler's process held so far. Everything, the control
plane included, shares the machine that it is run on.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

from benchmarks.process_cost import cpu_seconds, spent
from benchmarks.results import append
from gpucommons.scheduler.core.model.intents import (
    Action,
    Cancel,
    Intent,
    PutPools,
    PutTeams,
    Submit,
)
from gpucommons.scheduler.core.model.resources import Pool, Quota, Team
from gpucommons.scheduler.core.model.types import (
    IntentId,
    Kind,
    PoolName,
    Role,
    Spec,
    State,
    TeamName,
    UserName,
    WorkloadId,
)
from gpucommons.scheduler.executors.kubernetes.api_server.credentials import connect
from gpucommons.scheduler.executors.kubernetes.cluster_state.scheduler_callbacks import Around
from gpucommons.scheduler.executors.kubernetes.executor import KubernetesExecutor
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings
from gpucommons.scheduler.ids import IdSource
from gpucommons.scheduler.loop.acting import current_attempts
from gpucommons.scheduler.loop.loop import Loop, Surroundings
from gpucommons.scheduler.store.opening import open_store
from gpucommons.scheduler.wiring.cluster_parts import held_slots
from gpucommons.scheduler.wiring.scheduler_callbacks import wall_ms

POOL = PoolName("train")
BORROWERS, OWNERS = TeamName("borrowers"), TeamName("owners")
GPUS_PER_NODE = 8
NAMESPACE = "gpucommons-scale"
#: A shape that takes longer is broken off.
LIMIT_S = 1200.0
#: Until all nodes and teams are in the scheduler's sight.
_SIGHT_S = 300.0
_START_TIMEOUT_MS = 7_200_000


@dataclass(frozen=True)
class Ask:
    """What the parent asks of the scheduler's process."""

    shape: str
    team: str
    jobs: int
    workers: int = 1
    limit_s: float = LIMIT_S


def _pool() -> Pool:
    """All of it is lent, and at once taken back: these jobs have nothing to save."""
    return Pool(
        name=POOL,
        executor="kubernetes",
        gpu_kind="A100-40",
        notice_ms=0,
        min_run_ms=0,
        unlent_permille=0,
        lend_after_ms=0,
    )


class Scheduler:
    """The scheduler as it is deployed, but for its API: loop, store, executor."""

    def __init__(self, kubeconfig: str, folder: Path, gpus: int) -> None:
        settings = KubernetesSettings(
            namespace=NAMESPACE, environments={"": "job"}, keep_stopped_logs=False
        )
        self.connection = connect(kubeconfig=kubeconfig)
        executor = KubernetesExecutor(
            self.connection,
            settings,
            Around(
                pools=lambda: tuple(self.loop.cluster.pools.values()),
                pool_of_node=lambda _node: self.loop.cluster.pools.get(POOL),
                held=lambda: held_slots(self.loop.cluster),
                current=lambda: current_attempts(self.loop.cluster).keys(),
                on_change=lambda: self.loop.wake(),  # noqa: PLW0108 - the loop is made below
            ),
        )
        self.store = open_store(f"sqlite:///{folder / 'scheduler.db'}")
        self.new_ids = IdSource(wall_ms)
        self.loop = Loop(
            Surroundings(
                store=self.store,
                executors={executor.name: executor},
                now=wall_ms,
                new_ids=self.new_ids,
                token_of=lambda attempt_id: f"gca-{attempt_id}",
                api_url="http://gpucommons-api:8000",
            )
        )
        self.loop.start()
        self.ask(PutPools(pools=(_pool(),)))
        self.until(lambda: self.gpus() >= gpus, "nodes", _SIGHT_S)
        guarantee = {POOL: Quota(guaranteed_milli_gpu=gpus * 1000)}
        owners = Team(name=OWNERS, quotas=guarantee)
        self.ask(PutTeams(teams=(Team(name=BORROWERS, quotas={POOL: Quota()}), owners)))
        self.until(lambda: OWNERS in self.loop.cluster.teams, "teams", _SIGHT_S)

    def gpus(self) -> int:
        """GPUs that are offered."""
        return sum(len(node.devices) for node in self.loop.cluster.nodes.values())

    def ask(self, action: Action) -> None:
        """Put an intent into the store, as the API does."""
        self.store.put_intent(
            Intent(
                intent_id=IntentId(next(self.new_ids)),
                action=action,
                by=UserName("bench"),
                at_ms=wall_ms(),
            )
        )
        self.loop.wake()

    def submit(self, ask: Ask) -> list[WorkloadId]:
        """Jobs of one GPU per worker."""
        made = []
        role = Role(
            count=ask.workers, milli_gpu=1000, cpu_milli=4000, memory_mib=16_384, command=("work",)
        )
        for number in range(ask.jobs):
            spec = Spec(
                kind=Kind.TRAINING,
                name=f"{ask.shape}-{number}",
                team=TeamName(ask.team),
                owner=UserName(f"user-{number % 40}"),
                submitted_by=UserName(f"user-{number % 40}"),
                pools=(POOL,),
                roles=(role,),
                start_timeout_ms=_START_TIMEOUT_MS,
            )
            made.append(WorkloadId(next(self.new_ids)))
            self.ask(Submit(workload_id=made[-1], spec=spec))
        return made

    def running(self, team: str) -> int:
        """Workers of a team that run."""
        return sum(
            len(workload.current.placements)
            for workload in self.loop.cluster.workloads.values()
            if workload.spec.team == team
            and workload.state is State.RUNNING
            and workload.current is not None
        )

    def _all_run(self, left: list[WorkloadId]) -> bool:
        """Takes off those that run: to count thousands at every look must not be what is measured."""
        workloads = self.loop.cluster.workloads
        while left and left[-1] in workloads and workloads[left[-1]].state is State.RUNNING:
            left.pop()
        return not left

    def until(self, true: Callable[[], bool], what: str, limit_s: float) -> float:
        """Wait; returns the seconds that it took. Looks after each commit, not all the time.

        Raises
        ------
        TimeoutError
            When it is not so in time; says what is.
        """
        began = checked = time.monotonic()
        committed = threading.Event()
        committed.set()
        unsubscribe = self.loop.subscribe(committed.set)
        try:
            while True:
                if committed.wait(1):
                    committed.clear()
                    if true():
                        return time.monotonic() - began
                if time.monotonic() > checked + 1:
                    checked = time.monotonic()
                    self._check_patience(began, what, limit_s)
        finally:
            unsubscribe()

    def _check_patience(self, began: float, what: str, limit_s: float) -> None:
        if time.monotonic() - began > limit_s:
            states = Counter(w.state.value for w in self.loop.cluster.workloads.values())
            message = f"{what}: not within {limit_s:.0f} s ({dict(states)})"
            raise TimeoutError(message)
        asker = multiprocessing.parent_process()
        if asker is None or not asker.is_alive():
            raise SystemExit("Nobody wants to know any more.")

    def measure(self, ask: Ask) -> dict[str, object]:
        """Submit, wait until all of it runs, and say what it took."""
        wanted = self.running(ask.team) + ask.jobs * ask.workers
        before, began = Counter(self.connection.requests), time.monotonic()
        cpu_began = time.process_time()
        left = self.submit(ask)[::-1]
        broken_off = None
        try:
            all_run = lambda: self._all_run(left) and self.running(ask.team) >= wanted  # noqa: E731
            self.until(all_run, ask.shape, ask.limit_s)
        except TimeoutError as error:
            broken_off = str(error)
        seconds = time.monotonic() - began
        requests = Counter(self.connection.requests) - before
        rss_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        return {
            "shape": ask.shape,
            "nodes": len(self.loop.cluster.nodes),
            "jobs": ask.jobs,
            "workers": ask.jobs * ask.workers,
            "seconds": round(seconds, 1),
            "api_requests_per_job": round(requests.total() / ask.jobs, 2),
            "api_requests": {" ".join(what): count for what, count in requests.most_common()},
            "scheduler_rss_mib": rss_mib,
            "cpu_seconds": round(time.process_time() - cpu_began, 1),
            **({} if broken_off is None else {"broken_off": broken_off}),
        }

    def clear(self, limit_s: float) -> dict[str, object]:
        """End everything that runs or waits."""
        for workload_id in tuple(self.loop.cluster.workloads):
            self.ask(Cancel(workload_id=workload_id))
        try:
            self.until(lambda: not self.loop.cluster.workloads, "clearing", limit_s)
        except TimeoutError as error:
            return {"shape": "clear", "broken_off": str(error)}
        return {"shape": "clear"}


def serve(kubeconfig: str, gpus: int, pipe: Pipe) -> None:
    """The scheduler's process."""
    with tempfile.TemporaryDirectory() as folder:
        scheduler = Scheduler(kubeconfig, Path(folder), gpus)
        pipe.send("ready")
        for ask in iter(pipe.recv, None):
            if ask.shape == "clear":
                pipe.send(scheduler.clear(ask.limit_s))
            else:
                pipe.send(scheduler.measure(ask))
        scheduler.loop.stop()


@contextmanager
def scheduler_process(kubeconfig: Path, gpus: int) -> Iterator[Callable[[Ask], dict[str, object]]]:
    """A scheduler in a process of its own, so that its memory is its own."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(str(kubeconfig), gpus, there))
    process.start()
    there.close()

    def ask(what: Ask) -> dict[str, object]:
        here.send(what)
        answer: dict[str, object] = here.recv()
        return answer

    try:
        here.recv()
        print("ready", process.pid, flush=True)
        yield ask
        here.send(None)
        process.join(60)
    finally:
        process.kill()


def shapes(gpus: int, wanted: set[str], limit_s: float = LIMIT_S) -> tuple[Ask, ...]:
    """What is measured, each on what the one before has left: always on a full cluster but the first."""
    again = (
        Ask("reclaim-all", OWNERS, gpus - 1),
        Ask("clear", "", 0),
        Ask("refill", BORROWERS, gpus),
    )
    plan = (
        Ask("fill", BORROWERS, gpus),
        Ask("reclaim-one", OWNERS, 1),
        *(again if "reclaim-all" in wanted else ()),
        Ask("gang", OWNERS, 1, gpus // 2),
    )
    last = max(number for number, ask in enumerate(plan) if ask.shape in wanted)
    return tuple(replace(ask, limit_s=limit_s) for ask in plan[: last + 1])


def measure(nodes: int, plan: Iterable[Ask], wanted: set[str]) -> Iterator[dict[str, object]]:
    """All shapes on one cluster, which is gone afterwards."""
    from kubernetes import client  # noqa: PLC0415 - takes seconds

    from tests.kubernetes.cluster.cluster import Cluster  # noqa: PLC0415 - as above
    from tests.kubernetes.cluster.control_plane import Options  # noqa: PLC0415 - as above
    from tests.kubernetes.cluster.simulated_nodes import SimulatedNodes  # noqa: PLC0415 - as above

    cluster = Cluster(Options(large=True))
    try:
        cluster.start()
        cluster.start_kwok()
        with cluster.client() as api:
            client.CoreV1Api(api).create_namespace({"metadata": {"name": NAMESPACE}})
            simulated = SimulatedNodes(api, "scale")
            simulated(nodes, GPUS_PER_NODE, labels={"gpucommons.io/pool": POOL})
        # Nodes that answered a moment ago are believed only after that.
        time.sleep(16)
        gpus = nodes * GPUS_PER_NODE
        with scheduler_process(cluster.kubeconfig, gpus) as ask:
            for what in plan:
                names = cluster.processes.names()
                pids = {name: cluster.processes.pid(name) for name in names}
                before = cpu_seconds(pids)
                answer = ask(what)
                if what.shape in wanted or "broken_off" in answer:
                    used = spent(before, cpu_seconds(pids))
                    answer["cpu_seconds"] = {"ours": answer.pop("cpu_seconds", None), **used}
                    answer["load"] = round(os.getloadavg()[0], 1)
                    print(json.dumps(answer), flush=True)
                    yield answer
                if "broken_off" in answer:
                    break
    finally:
        cluster.stop()


def main() -> None:
    """Measure and write one JSON object per line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument(
        "--slope", type=int, default=2, help="fill again on so many times the nodes"
    )
    parser.add_argument("--jobs", type=int, help="of fill, which is then the only shape")
    parser.add_argument("--shapes", default="fill,reclaim-one,reclaim-all,gang")
    parser.add_argument(
        "--limit-s", type=float, default=LIMIT_S, help="most seconds that one shape may take"
    )
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    if asked.json is not None:
        asked.json.unlink(missing_ok=True)
    # Whoever ends us ends the cluster too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("broken off"))
    wanted = {"fill"} if asked.jobs else set(asked.shapes.split(","))
    plans = [(asked.nodes, wanted)]
    if asked.slope > 1:
        plans.append((asked.nodes * asked.slope, {"fill"}))
    broken_off = False
    for nodes, wanted in plans:
        plan = shapes(nodes * GPUS_PER_NODE, wanted, asked.limit_s)
        if asked.jobs:
            plan = tuple(replace(ask, jobs=asked.jobs) for ask in plan)
        for line in measure(nodes, plan, wanted):
            append(asked.json, line)
            broken_off = broken_off or "broken_off" in line
    sys.exit(1 if broken_off else 0)


if __name__ == "__main__":
    main()
