"""From a launch to the objects that run it: pure, so that every field can be read and tested.

One Indexed Job per role, almost always one in all. Its pods wait behind a scheduling gate; one patch
per pod says where it goes and what it holds, and opens the gate.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.gpu.providers import Injection, PodParts
from gpucommons.gpu.providers.cluster.pods import ATTEMPT_ATTRIBUTE, RANKS_ATTRIBUTE, slice_folder
from gpucommons.scheduler.core.model.types import Role, WorkerPlacement
from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.kubernetes.manifests import environment, hibernation
from gpucommons.scheduler.executors.kubernetes.manifests.hibernation import TreePlan
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.objects.restricted import (
    restricted_container,
    restricted_pod,
)
from gpucommons.scheduler.executors.kubernetes.settings import (
    KubernetesSettings,
    PodAdditions,
    PoolTraits,
)
from gpucommons.scheduler.in_pod.tree import VARIABLE

Document = dict[str, Any]

#: Data loaders, NCCL and Ray share memory there; a container's own has 64 MiB. It counts as the pod's memory.
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a mount, not a file
_NOT_EVICTED = tuple(
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
    for key in ("not-ready", "unreachable")
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Files:
    """How a job's files come to its pod and away from it, in the API's words."""

    init_containers: tuple[Mapping[str, Any], ...] = ()
    volumes: tuple[Mapping[str, Any], ...] = ()
    volume_mounts: tuple[Mapping[str, Any], ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Way:
    """What is decided about a launch before its manifests are written."""

    settings: KubernetesSettings
    traits: PoolTraits
    pool: str
    namespace: str
    image: str
    files: Files
    #: The command of each role as its container runs it.
    commands: Mapping[str, Sequence[str]]
    #: By role, what another system of the cluster is told so that it makes the slices.
    made: Mapping[str, Injection] = field(default_factory=dict)
    #: How its processes are to run; None = as any.
    tree: TreePlan | None = None

    def told(self, role: str) -> PodParts:
        """What the pods of a role say to whoever makes their slices; nothing where we do."""
        return self.made.get(role, Injection()).pod


# --- the Jobs --------------------------------------------------------------------------------


def jobs(launch: Launch, way: Way) -> tuple[Document, ...]:
    """The Job of each role."""
    roles = {role.name: role for role in launch.workload.spec.roles}
    return tuple(_job(launch, way, roles[name]) for name in names.roles_of(launch.attempt))


def _job(launch: Launch, way: Way, role: Role) -> Document:
    ranks = names.ranks_of(launch.attempt, role.name)
    labels = {**labels_of(launch, way.settings), names.ROLE: names.label_value(role.name)}
    placement = launch.attempt.placements[ranks[0]]
    told = way.told(role.name)
    spec: Document = {
        "completions": len(ranks),
        "parallelism": len(ranks),
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "podReplacementPolicy": "Failed",
        "ttlSecondsAfterFinished": way.settings.keep_finished_s,
        "template": {
            "metadata": {
                "labels": {**told.labels, **labels},
                "annotations": {**told.annotations, names.DEVICES: names.NO_DEVICE},
            },
            "spec": _pod(launch, way, role, placement),
        },
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": names.job_name(launch.attempt, role.name),
            "namespace": way.namespace,
            "labels": labels,
            "annotations": {f"{names.GROUP}/job": launch.workload.spec.name},
        },
        "spec": spec,
    }


def labels_of(launch: Launch, settings: KubernetesSettings) -> dict[str, str]:
    """Labels of everything that belongs to an attempt."""
    spec = launch.workload.spec
    return {
        names.MANAGED_BY: "gpucommons",
        names.INSTANCE: settings.instance,
        names.ATTEMPT: launch.attempt.attempt_id,
        names.WORKLOAD: names.label_value(launch.workload.workload_id),
        names.TEAM: names.label_value(spec.team),
        names.USER: names.slug(spec.owner),
        names.KIND: spec.kind.value,
    }


def _pod(launch: Launch, way: Way, role: Role, placement: WorkerPlacement) -> Document:
    settings, files, more = way.settings, way.files, way.settings.pod
    ranks = names.spans(names.ranks_of(launch.attempt, role.name))
    sliced = slice_folder(
        {ATTEMPT_ATTRIBUTE: launch.attempt.attempt_id, RANKS_ATTRIBUTE: ranks}
    ).pod
    is_ours = role.name not in way.made
    has_slice = settings.agents and placement.slice_id is not None and is_ours
    container = _container(launch, way, role, placement)
    hibernation.allow(container, way.tree)
    shared, shared_mounts = _shared_memory(more)
    container["volumeMounts"] = [
        *files.volume_mounts,
        *shared_mounts,
        *more.volume_mounts,
        *(sliced.volume_mounts if has_slice else ()),
    ]
    restricted = restricted_pod(user=settings.run_as_user, group=settings.run_as_group)
    restricted["securityContext"] |= {
        "fsGroup": settings.run_as_group,
        "fsGroupChangePolicy": "OnRootMismatch",
    }
    pod: Document = {
        **restricted,
        "schedulingGates": [{"name": names.GATE}],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": max(1, -(-way.traits.grace_ms // 1000)),
        "tolerations": [*_tolerations(way.pool), *more.tolerations],
        "initContainers": [_before_the_job(one, container, way) for one in files.init_containers],
        "containers": [container],
        "volumes": [
            *(*files.volumes, *shared, *more.volumes),
            *(sliced.volumes if has_slice else ()),
        ],
    }
    if len(launch.attempt.placements) > 1:
        pod["subdomain"] = names.base_name(launch.attempt.attempt_id)
    return {**pod, **_admins_choice(way), **more.spec, **_others_choice(way.told(role.name))}


def _shared_memory(more: PodAdditions) -> tuple[list[Document], list[Document]]:
    """Its volume and its mount, unless the admin has one there."""
    if any(one.get("mountPath") == _SHARED_MEMORY for one in more.volume_mounts):
        return [], []
    name = "gpucommons-shared-memory"
    volume = {"name": name, "emptyDir": {"medium": "Memory"}}
    return [volume], [{"name": name, "mountPath": _SHARED_MEMORY}]


def _others_choice(told: PodParts) -> Document:
    found: Document = {}
    if told.scheduler_name:
        found["schedulerName"] = told.scheduler_name
    if told.resource_claims:
        found["resourceClaims"] = [dict(one) for one in told.resource_claims]
    return found


def _admins_choice(way: Way) -> Document:
    settings = way.settings
    runtime_class = way.traits.place.runtime_class
    chosen = {
        "serviceAccountName": settings.service_account,
        "priorityClassName": settings.priority_class,
        "runtimeClassName": runtime_class,
        "imagePullSecrets": [{"name": name} for name in settings.image_pull_secrets],
    }
    return {name: value for name, value in chosen.items() if value}


def _tolerations(pool: str) -> list[Document]:
    """The pool's taint, and a lost node: only its return or an admin's word ends what ran there."""
    taint = {"key": names.POOL, "operator": "Equal", "value": pool, "effect": "NoSchedule"}
    return [taint, *_NOT_EVICTED]


def _container(launch: Launch, way: Way, role: Role, placement: WorkerPlacement) -> Document:
    plugin = from_plugin(way.traits, placement)
    made = way.made.get(role.name)
    gpus = environment.gpu_variables(
        from_plugin=plugin > 0 or made is not None,
        bound=plugin == 0 and bool(placement.device_ids),
    )
    found = environment.variables(launch, placement, namespace=way.namespace, gpus=gpus)
    hints = [] if made is None else [environment.plain(*one) for one in made.env.items()]
    ours = [environment.plain(name, value) for name, value in _ours(way).items()]
    limits: Document = {"memory": f"{placement.memory_mib or role.memory_mib}Mi"}
    if plugin:
        limits[way.traits.place.gpu_resource] = str(plugin)
    told = way.told(role.name)
    limits |= told.limits
    cpu_milli = placement.cpu_milli or role.cpu_milli
    return {
        "name": names.CONTAINER,
        "image": way.image,
        "imagePullPolicy": way.settings.image_pull_policy,
        "command": [environment.literally(part) for part in way.commands[role.name]],
        "envFrom": environment.from_secret(launch),
        "env": environment.last_wins(
            [*hints, *_without_gpus(found), *ours, *way.settings.pod.env, *gpus]
        ),
        "resources": {
            "requests": {"cpu": f"{cpu_milli}m", "memory": limits["memory"]},
            "limits": limits,
            **(
                {"claims": [{"name": c["name"]} for c in told.resource_claims]}
                if told.resource_claims
                else {}
            ),
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": restricted_container(),
    }


def _ours(way: Way) -> Mapping[str, str]:
    told = {} if way.tree is None else {VARIABLE: way.tree.written()}
    return {**way.files.env, **told}


def _without_gpus(found: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [one for one in found if not environment.is_of_gpus(one["name"])]


def _before_the_job(container: Mapping[str, Any], of_job: Mapping[str, Any], way: Way) -> Document:
    """Runs our image with the attempt's token: no variable of the job's user, and never a GPU.

    A user's ``PYTHONPATH`` would put their program in place of ours.
    """
    ours = [environment.plain(*one) for one in _ours(way).items()]
    own = container.get("env") or ()
    blind = environment.gpu_variables(from_plugin=False, bound=False)
    env = environment.last_wins([*ours, *_without_gpus(way.settings.pod.env), *own, *blind])
    return {**container, "envFrom": of_job["envFrom"], "env": env}


def from_plugin(traits: PoolTraits, placement: WorkerPlacement) -> int:
    """How many whole GPUs a worker asks of the device plugin; 0 where somebody else has them."""
    place = traits.place
    if place.provider or place.reservations == "standing" or placement.milli_gpu < WHOLE_MILLI_GPU:
        return 0
    return len(placement.device_ids)


# --- what belongs to the Jobs ----------------------------------------------------------------


def owned_by(job: Mapping[str, Any]) -> list[Document]:
    """Owner reference to a Job: what bears it goes when the Job goes."""
    meta = job["metadata"]
    return [{"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"]}]


def secret(launch: Launch, way: Way, owner: Mapping[str, Any]) -> Document:
    """What its workers are told, with the attempt's token: never in a pod's spec, which more may read."""
    meta = _owned(launch, way, owner)
    told = environment.shared(launch, way.namespace)
    data = {name: base64.b64encode(value.encode()).decode() for name, value in told.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "immutable": True, "data": data}


def service(launch: Launch, way: Way, owner: Mapping[str, Any]) -> Document | None:
    """The name under which workers find each other, also before they are ready; None for one worker."""
    if len(launch.attempt.placements) <= 1:
        return None
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _owned(launch, way, owner),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {names.ATTEMPT: launch.attempt.attempt_id},
            "ports": [{"name": "rendezvous", "port": environment.ports(launch)[0]}],
        },
    }


def of_job(launch: Launch, way: Way, body: Mapping[str, Any], owner: Mapping[str, Any]) -> Document:
    """An object that a Job's pods need, under its own name."""
    meta = {**_owned(launch, way, owner), "name": body["metadata"]["name"]}
    return {**body, "metadata": meta}


def _owned(launch: Launch, way: Way, owner: Mapping[str, Any]) -> Document:
    return {
        "name": names.base_name(launch.attempt.attempt_id),
        "namespace": way.namespace,
        "labels": labels_of(launch, way.settings),
        "ownerReferences": owned_by(owner),
    }
