"""A sweep of a thousand trials through the whole scheduler, in virtual time, on an executor that starts nothing.

``python -m benchmarks.sweeps.large [--trials 1000] [--json OUT]`` counts the processor time of everything
but the trials: the controller with its sampler, submits, cycles, stops and starts, commits to SQLite;
and how long the answer with all trials takes, from which the page in Lab is drawn.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.results import write
from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.sweeps import Sweeps
from gpucommons.scheduler.core.model.demand import every_size
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.state import ProgressReported
from gpucommons.scheduler.core.model.types import (
    Millis,
    NodeId,
    PoolName,
    Progress,
    State,
    UserName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.executors.fake import FakeExecutor, FakeWorld, Script
from gpucommons.scheduler.files.snapshots import Snapshots
from gpucommons.scheduler.ids import IdSource
from gpucommons.scheduler.loop.loop import Loop, Surroundings
from gpucommons.scheduler.principal import Identity, Principal, PrincipalKind, read_rights, resolve
from gpucommons.scheduler.service.administration import settings
from gpucommons.scheduler.service.in_memory.activity import ActivityBoard
from gpucommons.scheduler.service.in_memory.slices import Slices
from gpucommons.scheduler.service.jobs import sweeps
from gpucommons.scheduler.service.service import Service, ServiceSettings
from gpucommons.scheduler.store.base import Store
from gpucommons.scheduler.store.opening import open_store

GPUS, LAST_STEP = 8, 9
_STEP_MS = 1000
#: Passes between two looks whether it is over, which are not counted.
_LOOK_EVERY = 20
CONFIG: dict[str, Any] = {
    "pools": [{"name": "gpu", "executor": "fake", "notice_s": 0, "lend_after_s": 0}],
    "teams": [
        {
            "name": "vision",
            "members": ["ann"],
            "quotas": {"gpu": {"guaranteed_milli_gpu": GPUS * 1000}},
        }
    ],
}


def _node() -> Node:
    kind, memory_mib = "A100-40", 40_960
    devices = (
        Device(device_id=DeviceId(f"g{number}"), index=number, kind=kind, memory_mib=memory_mib)
        for number in range(GPUS)
    )
    return Node(
        node_id=NodeId("n1"),
        pool=PoolName("gpu"),
        devices=tuple(devices),
        cpu_milli=64_000,
        memory_mib=1 << 19,
    )


@dataclass
class World:
    """A scheduler without processes, and how far its trials are."""

    folder: Path
    now_ms: int = 1_700_000_000_000
    steps: dict[WorkloadId, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make it."""
        machine = FakeWorld(
            now=self.now,
            nodes=(_node(),),
            script_of=lambda _: Script(run_ms=(LAST_STEP + 1) * _STEP_MS),
        )
        executor, ids = FakeExecutor(machine), IdSource(self.now)
        store = open_store(f"sqlite:///{self.folder / 'store.sqlite'}")
        self.loop = Loop(
            Surroundings(
                store=store,
                executors={"fake": executor},
                now=self.now,
                new_ids=ids,
                token_of=str,
                api_url="",
                on_server_act=lambda *_: None,
            )
        )
        self.loop.open()
        self.loop.cycle()
        self.service = self._service(store, ids)
        settings.put_config(
            self.service, self.who("root", "admin"), models.ConfigModel.model_validate(CONFIG)
        )
        self.loop.cycle()
        self.sweeps = Sweeps(self.service, epoch=lambda: self.loop.epoch)

    def _service(self, store: Store, ids: IdSource) -> Service:
        agent: Any = SimpleNamespace(usage=tuple, slices=tuple, memories=dict)
        directory: Any = SimpleNamespace(knows=lambda _: True, groups_of=lambda _: frozenset())
        logs: Any = SimpleNamespace()
        return Service(
            store=store,
            loop=self.loop,
            logs=logs,
            directory=directory,
            snapshots=Snapshots(self.folder / "snapshots"),
            activity=ActivityBoard(),
            slices=Slices(agent, cluster=lambda: self.loop.cluster, observe=self.loop.observe),
            why_not=every_size,
            now_ms=self.now,
            new_ids=ids,
            settings=ServiceSettings(executors=("fake",)),
            files={},
        )

    def now(self) -> Millis:
        """By its own clock."""
        return Millis(self.now_ms)

    def who(self, name: str, verb: str) -> Principal:
        """Somebody with one right."""
        rights = read_rights([f"custom:gpucommons:{verb}"])
        identity = Identity(
            name=UserName(name), kind=PrincipalKind.USER, groups=frozenset(), rights=rights
        )
        return resolve(identity, self.loop.cluster.teams)

    def pass_time(self, rng: random.Random) -> None:
        """A second: each trial that runs tells its next step."""
        self.now_ms += _STEP_MS
        for job in list(self.loop.cluster.workloads.values()):
            if job.state is State.RUNNING and job.current is not None:
                self._tell(job, rng)
        self.loop.cycle()
        self.sweeps.step()
        self.loop.cycle()

    def _tell(self, job: Workload, rng: random.Random) -> None:
        step = self.steps[job.workload_id] = self.steps.get(job.workload_id, 0) + 1
        progress = Progress(
            step=step, total_steps=LAST_STEP, metrics={"score": rng.random()}, at_ms=self.now()
        )
        assert job.current is not None
        self.loop.observe(ProgressReported(attempt_id=job.current.attempt_id, progress=progress))


def measured(trials: int, folder: Path) -> dict[str, object]:
    """One row."""
    world, rng = World(folder), random.Random(1)  # noqa: S311 - a simulation
    ann = world.who("ann", "submit")
    role = models.RoleRequest(milli_gpu=1000, command=["python", "train.py"])
    request = {
        "job": models.JobRequest(name="search", roles=[role]),
        "space": {"lr": {"low": 1e-5, "high": 1, "log": True}, "depth": {"low": 2, "high": 12}},
        "objective": {"metric": "score", "direction": "maximize"},
        "budget": {"trials": trials},
        "early_stopping": {"first_step": 1, "last_step": LAST_STEP, "factor": 3},
        "sampler": "random",
    }
    asked = models.SweepRequest.model_validate(request)
    name = sweeps.submit_sweep(world.service, ann, asked, key=None).name
    took_s = 0.0
    while not sweeps.sweep(world.service, ann, name).ended_ms:
        began = time.process_time()
        for _ in range(_LOOK_EVERY):
            world.pass_time(rng)
        took_s += time.process_time() - began
    began = time.perf_counter()
    view = sweeps.sweep(world.service, ann, name)
    size = len(view.model_dump_json())
    return {
        "trials": len(view.trials),
        "attempts_told": sum(world.steps.values()),
        "ended": view.text,
        "scheduler_ms_per_trial": round(1000 * took_s / trials, 2),
        "answer_ms": round(1000 * (time.perf_counter() - began), 1),
        "answer_kib": size >> 10,
    }


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gclarge") as folder:
        row = measured(arguments.trials, Path(folder))
    print(row)
    write(arguments.json, [row])


if __name__ == "__main__":
    main()
