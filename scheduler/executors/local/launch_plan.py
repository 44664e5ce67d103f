"""From a launch to a supervisor's plan: pure, so that what a job gets can be read and tested.

The environment of a worker is made of three layers, later ones winning: a few harmless variables of
the service, what the spec asks for, and what we say. A spec was refused long before if it named one of
ours; the order makes sure of it.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpucommons.gpu.devices.devices import Device
from gpucommons.gpu.providers import Injection, injection, no_gpu
from gpucommons.gpu.slices.memory_of_share import share_memory_mib
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, MpsDaemon, SliceId
from gpucommons.scheduler import experiment_trackers
from gpucommons.scheduler.core.going_on.hibernating import hibernation_at_start, kept_image
from gpucommons.scheduler.core.model.resources import Node, Pool
from gpucommons.scheduler.core.model.types import AttemptId, PoolName, WorkerPlacement
from gpucommons.scheduler.curves.event_watch import TOKEN_FILE
from gpucommons.scheduler.curves.trainer_status import TRAINER_STATUS_PATH
from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.executors import global_batch
from gpucommons.scheduler.executors.base import Launch, Place, gang_of, of_parent
from gpucommons.scheduler.executors.local.attempt.plan import (
    Account,
    HibernationPlan,
    Plan,
    WorkerPlan,
    passed_on,
)
from gpucommons.scheduler.files.job_file_limits import MAX_RESULTS_BYTES, MAX_UNPACKED_BYTES
from gpucommons.scheduler.launchers import starts
from gpucommons.scheduler.launchers.launcher import NOTEBOOK_RUNNER
from gpucommons.scheduler.launchers.worker_addresses import PORTS

MASTER_ADDRESS = "127.0.0.1"
_PYTHON = ("python", "python3")


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """What the machine adds to a launch."""

    folder: Path
    #: Folder of the attempt whose checkpoint is resumed.
    resume_folder: Path | None
    snapshot: Path | None
    home: Path
    python: str
    #: For each worker in a row; free ones where workers meet.
    ports: tuple[int, ...]
    devices: Mapping[str, Device]
    #: The service's environment.
    environ: Mapping[str, str]
    account: Account | None = None
    superseded: tuple[str, ...] = ()
    earlier: tuple[str, ...] = ()
    max_unpacked_bytes: int = MAX_UNPACKED_BYTES
    max_results_bytes: int = MAX_RESULTS_BYTES
    max_log_bytes: int = 64 << 20
    #: What lets scripts of other environments import ours; None = it is not there.
    training: Path | None = None
    extra_env: Mapping[str, str] = field(default_factory=dict)
    #: None where nobody has looked whether it can be saved.
    hibernation: HibernationPlan | None = None
    #: What the node agent made, by slice.
    prepared: Mapping[SliceId, Injection] = field(default_factory=dict)


def refuse_home_name(user: str) -> None:
    """Homes lie in one folder, each by its user's name.

    Raises
    ------
    Misconfigured
        When the name would lead out of that folder.
    """
    if "/" in user or user in ("", ".", ".."):
        message = f"{user!r} cannot be the name of a home folder."
        raise Misconfigured(message)


def superseded(launch: Launch) -> Iterator[AttemptId]:
    """Earlier attempts whose files nobody needs: another one's checkpoint is resumed."""
    resumed = launch.attempt.resumed_from
    kept = {launch.attempt.attempt_id, resumed.attempt_id if resumed else None}
    return (a.attempt_id for a in launch.workload.attempts if a.attempt_id not in kept)


def earlier(launch: Launch, by_job: Mapping[str, Sequence[AttemptId]]) -> tuple[AttemptId, ...]:
    """All attempts of the job before this one, newest first; what is not on record is newer than that."""
    before = [a.attempt_id for a in launch.workload.attempts if a.number < launch.attempt.number]
    own = launch.attempt.attempt_id
    newer = (one for one in by_job.get(launch.workload.workload_id, ()) if one < own)
    return tuple(reversed(dict.fromkeys((*before, *newer))))


def make_plan(launch: Launch, around: Surroundings) -> Plan:
    """Say what the supervisor of this attempt is to do."""
    spec = launch.workload.spec
    joined = starts(spec.launcher, gang_of(launch, _places(launch, around)))
    workers = tuple(
        WorkerPlan(
            rank=rank,
            command=_command(start.command, around, spec.environment),
            env=_environment(launch, around, rank, placement) | dict(start.env),
            cgroup=_given(around, placement).cgroup,
            simulated=_is_simulated(around, placement),
        )
        for rank, (placement, start) in enumerate(
            zip(launch.attempt.placements, joined, strict=True)
        )
    )
    return Plan(
        attempt_id=launch.attempt.attempt_id,
        job=spec.name,
        workers=workers,
        working_dir=spec.working_dir,
        snapshot=str(around.snapshot) if around.snapshot else None,
        max_unpacked_bytes=around.max_unpacked_bytes,
        max_results_bytes=around.max_results_bytes,
        max_log_bytes=around.max_log_bytes,
        home=str(around.home),
        results_to=spec.results_to,
        exit_after_signal=spec.exit_after_signal,
        environment=spec.environment,
        links=spec.links,
        links_from=spec.links_from,
        secrets=dict(spec.secrets),
        account=around.account,
        superseded=around.superseded,
        earlier=around.earlier,
        job_id=launch.workload.workload_id,
        number=launch.attempt.number,
        ports=around.ports,
        hibernation=around.hibernation,
        was_told=_was_told(launch),
    )


def hibernation_plan(
    launch: Launch,
    nodes: Iterable[Node],
    *,
    pool_named: Callable[[PoolName], Pool | None],
    criu: tuple[str, ...],
    max_image_bytes: int,
) -> HibernationPlan | None:
    """Whether it can be saved where it is to run; None where nobody has looked."""
    attempt = launch.attempt
    on = attempt.placements[0].node_id if attempt.placements else None
    node = next((one for one in nodes if one.node_id == on), None)
    name = PoolName("") if node is None else node.pool
    pool = pool_named(name) or Pool(name=name)
    known = hibernation_at_start(launch.workload, attempt, pool, node)
    if known is None:
        return None
    can = None if node is None else node.hibernation
    return HibernationPlan(
        hindrance=known.hindrance,
        criu=criu,
        save_mib_per_s=0 if can is None else can.save_mib_per_s,
        wake_mib_per_s=0 if can is None else can.wake_mib_per_s,
        cost_ms=known.cost_ms,
        max_image_bytes=max_image_bytes,
        promised=_promised(launch),
    )


def _promised(launch: Launch) -> str:
    kept = kept_image(launch.workload)
    return "" if kept is None else kept[1].sha256


def _was_told(launch: Launch) -> bool:
    kept = kept_image(launch.workload)
    return kept is not None and kept[1].told


def slice_of(
    placement: WorkerPlacement, devices: Mapping[str, Device], mps: MpsDaemon | None = None
) -> GpuSlice | None:
    """The slice of one worker; None without a GPU. ``mps`` is the daemon of its pool."""
    if not placement.device_ids or placement.slice_id is None:
        return None
    held = [devices[device_id] for device_id in placement.device_ids if device_id in devices]
    return GpuSlice(
        slice_id=SliceId(placement.slice_id),
        shares=tuple(
            DeviceShare(device_id=device_id, milli_gpu=placement.milli_gpu)
            for device_id in placement.device_ids
        ),
        memory_mib=sum(share_memory_mib(device, placement.milli_gpu) for device in held),
        mps=mps,
    )


def _places(launch: Launch, around: Surroundings) -> list[Place]:
    return [
        Place(
            address=MASTER_ADDRESS,
            ports=around.ports[rank * PORTS : (rank + 1) * PORTS],
            simulated=_is_simulated(around, placement),
        )
        for rank, placement in enumerate(launch.attempt.placements)
    ]


def _is_simulated(around: Surroundings, placement: WorkerPlacement) -> bool:
    return any(
        one in around.devices and around.devices[one].simulated for one in placement.device_ids
    )


def _command(command: tuple[str, ...], around: Surroundings, environment: str) -> tuple[str, ...]:
    first, *rest = command
    if first not in _PYTHON:
        return command
    # A notebook's cells run in its environment, and what starts them in ours: few others have it.
    is_ours = not environment or rest[:2] == ["-m", NOTEBOOK_RUNNER]
    return (around.python if is_ours else _python_of(environment), *rest)


def _python_of(environment: str) -> str:
    return f"{environment}/bin/python3"


def _environment(
    launch: Launch, around: Surroundings, rank: int, placement: WorkerPlacement
) -> dict[str, str]:
    base = passed_on(around.environ)
    environment = launch.workload.spec.environment
    # The job's own Python first, so that its tools are found by name.
    python = _python_of(environment) if environment else around.python
    binaries = os.path.dirname(python)  # noqa: PTH120 - pure text, not a file
    base["PATH"] = os.pathsep.join(part for part in (binaries, base.get("PATH", "")) if part)
    env = {
        **base,
        # Through a pipe Python would keep lines back until it has 8 KiB of them.
        "PYTHONUNBUFFERED": "1",
        **_trainer_variables(launch, around),
        "OMP_NUM_THREADS": str(max(1, placement.cpu_milli // 1000)),
        **launch.workload.spec.env,
        "HOME": str(around.home),
        "USER": launch.workload.spec.owner,
        "LOGNAME": launch.workload.spec.owner,
        **around.extra_env,
        **_ours(launch, around, rank, placement),
    }
    if environment:
        env |= _of_environment(environment, env, around)
    return _given(around, placement).apply(env)


def _trainer_variables(launch: Launch, around: Surroundings) -> dict[str, str]:
    """Where trainers post their status by themselves, in Kubeflow's progress protocol."""
    return {
        "KUBEFLOW_TRAINER_SERVER_URL": f"{launch.api_url}{TRAINER_STATUS_PATH}",
        "KUBEFLOW_TRAINER_SERVER_TOKEN": str(around.folder / "run" / TOKEN_FILE),
    }


def _of_environment(
    environment: str, env: Mapping[str, str], around: Surroundings
) -> dict[str, str]:
    """What a job finds in an environment that knows nothing of us."""
    found = {"GPUCOMMONS_KERNEL_PYTHON": _python_of(environment)}
    if around.training is not None:
        # Last, so that nothing of the user's is hidden.
        paths = (env.get("PYTHONPATH", ""), str(around.training))
        found["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    return found


def _given(around: Surroundings, placement: WorkerPlacement) -> Injection:
    """What makes the worker's slice: the agent's word, else what can be said without it."""
    gpu_slice = slice_of(placement, around.devices)
    if gpu_slice is None:
        return no_gpu()
    prepared = around.prepared.get(gpu_slice.slice_id)
    return prepared or injection(gpu_slice, list(around.devices.values()))


def _ours(
    launch: Launch, around: Surroundings, rank: int, placement: WorkerPlacement
) -> dict[str, str]:
    attempt, workload = launch.attempt, launch.workload
    size = str(len(attempt.placements))
    env = {
        "GPUCOMMONS_URL": launch.api_url,
        "GPUCOMMONS_TOKEN": launch.token,
        "GPUCOMMONS_JOB_ID": workload.workload_id,
        "GPUCOMMONS_JOB_NAME": workload.spec.name,
        **of_parent(workload),
        **experiment_trackers.variables(workload.workload_id, attempt.number, workload.spec.env),
        "GPUCOMMONS_ATTEMPT": str(attempt.number),
        "GPUCOMMONS_ATTEMPT_ID": attempt.attempt_id,
        "GPUCOMMONS_ATTEMPT_DIR": str(around.folder / "run"),
        "GPUCOMMONS_NOTICE_FILE": str(around.folder / "notice" / "notice.json"),
        "GPUCOMMONS_CHECKPOINTS_KEPT": str(workload.spec.checkpoints_kept),
        "GPUCOMMONS_RANK": str(rank),
        "GPUCOMMONS_WORLD_SIZE": size,
        "GPUCOMMONS_ROLE": placement.role,
        "MASTER_ADDR": MASTER_ADDRESS,
        "MASTER_PORT": str(around.ports[0]),
        **global_batch.variables(workload, attempt),
        **({} if workload.loader is None else workload.loader.variables()),
    }
    if attempt.resumed_from is not None and around.resume_folder is not None:
        env["GPUCOMMONS_RESUME_DIR"] = str(around.resume_folder / "run" / attempt.resumed_from.path)
    if placement.slice_id is not None:
        env["GPUCOMMONS_SLICE_ID"] = placement.slice_id
    return env
