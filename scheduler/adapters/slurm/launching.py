"""From a launch to what lies in its attempt's folder, and to the words that submit it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.adapters.slurm.nodes import all_devices
from gpucommons.scheduler.adapters.slurm.on_node import FACTS
from gpucommons.scheduler.adapters.slurm.settings import SlurmPool, SlurmSettings
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.types import AttemptId
from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.local.attempt.attempt_folder import AttemptFolder, write_json
from gpucommons.scheduler.executors.local.attempt.plan import passed_on
from gpucommons.scheduler.executors.local.launch_plan import (
    Surroundings,
    earlier,
    make_plan,
    refuse_home_name,
    superseded,
)
from gpucommons.scheduler.launchers.worker_addresses import PORTS, ports_from

#: In front of the attempt's id, in the name of a job of Slurm.
PREFIX = "gpucommons-"
#: The id becomes a path below our folder: a job of any other name is somebody else's.
NAMED = re.compile(rf"{PREFIX}([0-9a-z]+(?:-[0-9a-z]+)+)")
#: Slurm may say up to a minute too early, and not later than so, that a job's time is over.
_AHEAD_S = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """What is the same for all jobs, but changes with a new scheduler."""

    settings: SlurmSettings
    #: What lets scripts of other environments import ours.
    training: Path
    #: Attempts of each job, as their folders name it.
    by_job: Mapping[str, Sequence[AttemptId]] = field(default_factory=dict)


def refuse(launch: Launch, pool: SlurmPool, root: Path) -> None:
    """Say what can never run on Slurm.

    Raises
    ------
    Misconfigured
        For an owner whose name is no folder's, a share of a GPU, more than one node has, or a checkpoint
        that is not below ``root``.
    """
    refuse_home_name(launch.workload.spec.owner)
    resumed = launch.attempt.resumed_from
    if resumed is not None and not (root / resumed.attempt_id).is_dir():
        message = (
            "Its checkpoint lies where another pool keeps files, and this Slurm cannot read it: submit it"
            " again to a pool like the one that it began in."
        )
        raise Misconfigured(message)
    placements = launch.attempt.placements
    if any(one.device_ids and one.milli_gpu != WHOLE_MILLI_GPU for one in placements):
        message = "This pool is a Slurm, which gives whole GPUs only: ask for whole ones."
        raise Misconfigured(message)
    asked = {
        "GPUs": (sum(len(one.device_ids) for one in placements), pool.gpus_per_node),
        "CPUs": (_cpus(launch), pool.cpus_per_node),
        "GiB of memory": (_memory_mib(launch) / 1024, pool.memory_gib_per_node),
    }
    for what, (wanted, there) in asked.items():
        if wanted > there:
            message = (
                f"On a Slurm all workers of a job run on one node. They ask for {wanted:g} {what}"
                f" together, and a node of this pool has {there}: ask for less, or fewer workers."
            )
            raise Misconfigured(message)


def lay_out(
    folder: AttemptFolder,
    launch: Launch,
    site: Site,
    pool: Pool,
    snapshot: Path | None,
) -> None:
    """Write all that the supervisor needs to know, once."""
    for path in (folder.path, folder.notice.parent):
        path.mkdir(mode=0o711, exist_ok=True)
    folder.log(0).parent.mkdir(mode=0o700, exist_ok=True)
    settings = site.settings
    launch = replace(launch, api_url=settings.api_url or launch.api_url)
    attempt, root = launch.attempt, folder.path.parent
    resumed = attempt.resumed_from

    def runs(attempts: Iterable[AttemptId]) -> tuple[str, ...]:
        return tuple(str(AttemptFolder(root / one).run) for one in attempts)

    around = Surroundings(
        folder=folder.path,
        resume_folder=root / resumed.attempt_id if resumed else None,
        snapshot=snapshot,
        home=Path(settings.homes.format(user=launch.workload.spec.owner)),
        python=str(settings.python),
        # Nobody knows yet on which node: they follow from the attempt, as in a cluster.
        ports=tuple(islice(ports_from(attempt.attempt_id), PORTS * len(attempt.placements))),
        devices=all_devices(pool, settings.pools[pool.name]),
        environ=os.environ,
        training=site.training,
        superseded=runs(superseded(launch)),
        earlier=runs(earlier(launch, site.by_job)),
    )
    facts = {
        "gpus": [len(one.device_ids) for one in attempt.placements],
        "simulated": pool.simulated,
        "grace_ms": pool.grace_ms,
    }
    write_json(folder.path / FACTS, facts)
    write_json(folder.plan, make_plan(launch, around).as_json())


def options(launch: Launch, folder: AttemptFolder, asked: SlurmPool, pool: Pool) -> list[str]:
    """The words for ``sbatch``: what it needs, and that Slurm neither repeats nor doubles it."""
    gpus = 0 if pool.simulated else sum(len(one.device_ids) for one in launch.attempt.placements)
    kind = f"{asked.gpu_type}:" if asked.gpu_type else ""
    found = {
        "job-name": f"{PREFIX}{launch.attempt.attempt_id}",
        "comment": f"gpucommons {launch.workload.spec.name}",
        "output": str(folder.path / "slurm.log"),
        "chdir": "/",
        # Only what we say: no token of the service is in the job's environment.
        "export": "NIL",
        # Of two that were submitted under one name, never both run.
        "dependency": "singleton",
        "nodes": "1",
        "ntasks": "1",
        "cpus-per-task": str(_cpus(launch)),
        "mem": f"{max(1, _memory_mib(launch))}M",
        "signal": f"B:TERM@{-(-pool.grace_ms // 1000) + _AHEAD_S}",
        "gres": f"gpu:{kind}{gpus}" if gpus else None,
        "partition": asked.partition,
        "account": asked.account,
        "qos": asked.qos,
        "reservation": asked.reservation,
        "constraint": asked.constraint,
        "time": asked.time_limit_minutes,
    }
    return ["--no-requeue", *(f"--{name}={value}" for name, value in found.items() if value)]


def script(folder: AttemptFolder, python: Path) -> str:
    """What Slurm runs; nothing of a user's is part of it."""
    env = [f"{name}={value}" for name, value in passed_on(os.environ).items()]
    words = ["env", *env, str(python), "-m", "gpucommons.scheduler.adapters.slurm.on_node"]
    return f"#!/bin/sh\nexec {shlex.join([*words, str(folder.path)])}\n"


def _cpus(launch: Launch) -> int:
    return max(1, -(-sum(one.cpu_milli for one in launch.attempt.placements) // 1000))


def _memory_mib(launch: Launch) -> int:
    return sum(one.memory_mib for one in launch.attempt.placements)
