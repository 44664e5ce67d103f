"""The variables of one job's container, in the order that decides: what is ours comes last.

A Job has one pod template, so what differs from worker to worker is read from the pod's annotations,
which are set in the same patch that lets the pod go. The kubelet reads them when it starts the
container. What is the same for all workers lies in the attempt's Secret: in the template the API server
would read and compare each variable with every change of every pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count, islice
from typing import Any

from gpucommons.gpu.providers import no_gpu
from gpucommons.scheduler import experiment_trackers
from gpucommons.scheduler.core.model.types import WorkerPlacement
from gpucommons.scheduler.executors import global_batch
from gpucommons.scheduler.executors.base import Launch, Place, gang_of, of_parent
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.in_pod import starting
from gpucommons.scheduler.launchers import PLAIN, starts
from gpucommons.scheduler.launchers.worker_addresses import PORTS, ports_from

Variable = Mapping[str, Any]

_GPU_VARIABLES = ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


def user_secret(owner: str) -> str:
    """Where a user's own secrets lie in the namespace of their jobs."""
    return f"gpucommons-user-{names.slug(owner)}"


def variables(
    launch: Launch, placement: WorkerPlacement, *, namespace: str, gpus: Iterable[Variable]
) -> list[Variable]:
    """All variables of a role's workers; ``gpus`` are those that make its slice."""
    spec = launch.workload.spec
    given = {
        "OMP_NUM_THREADS": str(max(1, placement.cpu_milli // 1000)),
        # Into a log Python would keep lines back until it has 8 KiB of them.
        "PYTHONUNBUFFERED": "1",
        **spec.env,
    }
    secret = user_secret(spec.owner)
    found = [plain(name, value) for name, value in given.items()]
    found += [secret_key(name, secret, key) for name, key in spec.secrets.items()]
    # A variable of the container would win over the Secret's.
    ours = shared(launch, namespace)
    found = [one for one in found if one["name"] not in ours]
    found += _of_worker(launch, placement)
    found += gpus
    return last_wins(found)


def from_secret(launch: Launch) -> list[Variable]:
    """Where a container finds what :func:`shared` says."""
    return [{"secretRef": {"name": names.base_name(launch.attempt.attempt_id)}}]


def last_wins(found: Iterable[Variable]) -> list[Variable]:
    """Every name once, at the place and with the value of its last mention."""
    kept: dict[str, Variable] = {}
    for one in found:
        kept.pop(one["name"], None)
        kept[one["name"]] = one
    return list(kept.values())


def shared(launch: Launch, namespace: str) -> Mapping[str, str]:
    """What all workers of an attempt are told, whichever role they have."""
    attempt, workload = launch.attempt, launch.workload
    return {
        "USER": workload.spec.owner,
        "LOGNAME": workload.spec.owner,
        "GPUCOMMONS_URL": launch.api_url,
        "GPUCOMMONS_TOKEN": launch.token,
        "GPUCOMMONS_JOB_ID": workload.workload_id,
        "GPUCOMMONS_JOB_NAME": workload.spec.name,
        **of_parent(workload),
        **experiment_trackers.variables(workload.workload_id, attempt.number, workload.spec.env),
        "GPUCOMMONS_ATTEMPT": str(attempt.number),
        "GPUCOMMONS_ATTEMPT_ID": attempt.attempt_id,
        "GPUCOMMONS_CHECKPOINTS_KEPT": str(workload.spec.checkpoints_kept),
        "GPUCOMMONS_WORLD_SIZE": str(len(attempt.placements)),
        "MASTER_ADDR": master_address(launch, namespace),
        "MASTER_PORT": str(ports(launch)[0]),
        **global_batch.variables(workload, attempt),
        **({} if workload.loader is None else workload.loader.variables()),
        **_of_launcher(launch, namespace),
    }


def ports(launch: Launch) -> tuple[int, ...]:
    """Of each worker: a pod has them for itself, and another attempt has others."""
    return tuple(islice(ports_from(launch.attempt.attempt_id), PORTS))


def _of_launcher(launch: Launch, namespace: str) -> Mapping[str, str]:
    """What each worker is started with, for all of them in one variable."""
    launcher = launch.workload.spec.launcher
    if launcher == PLAIN:
        return {}
    places = [
        Place(address=address, ports=ports(launch)) for address in _addresses(launch, namespace)
    ]
    found = starts(launcher, gang_of(launch, places))
    return {starting.VARIABLE: starting.written([s.command for s in found], [s.env for s in found])}


def _of_worker(launch: Launch, placement: WorkerPlacement) -> list[Variable]:
    found = [
        plain("GPUCOMMONS_ROLE", placement.role),
        annotation("GPUCOMMONS_RANK", names.RANK),
    ]
    if placement.slice_id is not None:
        found.append(annotation("GPUCOMMONS_SLICE_ID", names.SLICE))
    return found


def master_address(launch: Launch, namespace: str) -> str:
    """Where rank 0 answers: by name where there are others, who must retry until it does."""
    return next(iter(_addresses(launch, namespace)), "127.0.0.1")


def _addresses(launch: Launch, namespace: str) -> Iterator[str]:
    """Of each worker, by rank: a pod of an Indexed Job is called after its completion index."""
    attempt = launch.attempt
    if len(attempt.placements) <= 1:
        yield "127.0.0.1"
        return
    jobs = {role: (names.job_name(attempt, role), count()) for role in names.roles_of(attempt)}
    domain = f"{names.base_name(attempt.attempt_id)}.{namespace}.svc"
    for placement in attempt.placements:
        name, numbers = jobs[placement.role]
        yield f"{name}-{next(numbers)}.{domain}"


def gpu_variables(*, from_plugin: bool, bound: bool) -> list[Variable]:
    """What a worker sees of GPUs.

    ``from_plugin``: the kubelet's device plugin says which, so we say nothing. ``bound``: the devices
    that reservations hold for it, known when the pod is let go. Neither: none.
    """
    if from_plugin:
        return []
    if bound:
        return [annotation("NVIDIA_VISIBLE_DEVICES", names.DEVICES)]
    return [plain(name, value) for name, value in no_gpu().env.items()]


def is_of_gpus(variable: str) -> bool:
    """Whether a variable decides which GPUs a worker sees."""
    return variable in _GPU_VARIABLES


def plain(name: str, value: str) -> Variable:
    """A variable with a value."""
    return {"name": name, "value": literally(value)}


def literally(text: str) -> str:
    """As Kubernetes gives it to a container unchanged.

    It would put a variable in place of ``$(NAME)``, and one ``$`` in place of two.
    """
    return text.replace("$", "$$")


def annotation(name: str, key: str) -> Variable:
    """A variable whose value stands on the pod when its container starts."""
    return {
        "name": name,
        "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{key}']"}},
    }


def secret_key(name: str, secret: str, key: str) -> Variable:
    """A variable whose value lies in a Secret."""
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
