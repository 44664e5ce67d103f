"""What a TrainJob asks for, and the few words that we write into it. Pure: documents in, documents out.

Fields and meanings are those of Kubeflow Trainer 2.0.0: ``pkg/apis/trainer/v1alpha1`` and the plugins in
``pkg/runtime/framework/plugins``, which make pods of a TrainJob and its runtime.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from gpucommons.scheduler.adapters.trainer.devices import devices_of
from gpucommons.scheduler.adapters.trainer.settings import TrainerSettings
from gpucommons.scheduler.core.model.types import Role
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.objects.quantities import asked_of
from gpucommons.scheduler.models.jobs.jobs import OBJECT_LABEL
from gpucommons.scheduler.operator.objects import ObjectRef

Document = Mapping[str, Any]

GROUP, VERSION, KIND = "trainer.kubeflow.org", "v1alpha1", "TrainJob"
#: Which of a runtime's jobs is the training; the others prepare data and models.
ANCESTOR, TRAINER = f"{GROUP}/trainjob-ancestor-step", "trainer"
#: The container of it that a TrainJob's command is for.
NODE = "node"
#: Kueue's: who decides about such a TrainJob is decided.
KUEUE = "kueue.x-k8s.io/queue-name"
BUILT_IN = f"{GROUP}/trainjob-controller"

#: Labels that a user may write.
TEAM, POOL, PRIORITY = names.TEAM, names.POOL, f"{names.GROUP}/priority"
_PRIORITIES = ("low", "normal", "high")
#: Annotations that we write: the job that waits for it, what that asked for, how it stands.
JOB, ASKED = f"{names.GROUP}/job", f"{names.GROUP}/asked"
STATE, REASON = f"{names.GROUP}/state", f"{names.GROUP}/reason"
#: What became of it when it was edited in line.
EDITED = f"{names.GROUP}/edited"
#: Which attempt it was resumed for, and when (UTC milliseconds).
ATTEMPT, SINCE = names.ATTEMPT, f"{names.GROUP}/since"

#: What a container takes that names nothing, as a job of ours does.
_CPU_MILLI, _MEMORY_MIB = 1000, 1024
_LEAST_MIB = 16
_LONGEST_TIME = 16
#: Before the object's name in a job's label.
_OF = "trainjob:"


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What the line has to know of a TrainJob."""

    nodes: int
    #: Whole GPUs of each, in thousandths.
    milli_gpu: int
    cpu_milli: int
    memory_mib: int
    team: str
    pools: tuple[str, ...]
    priority: str | None
    #: The runtime's job that the pods are of.
    target: str

    @property
    def mark(self) -> str:
        """Two that ask for the same have the same."""
        return hashlib.sha256(repr(astuple(self)).encode()).hexdigest()[:12]

    @property
    def size(self) -> tuple[int, int, int, int]:
        """What is admitted: nodes, GPUs, CPU and memory of each."""
        return self.nodes, self.milli_gpu, self.cpu_milli, self.memory_mib


def label_of(ref: ObjectRef) -> dict[str, str]:
    """The label of the job that stands for a TrainJob; only services may write it."""
    # With nothing behind the last stroke: there an operator of a release before TrainJobs, which may run
    # on during an upgrade, looks for its own object, and it cancels jobs whose object is not there.
    return {OBJECT_LABEL: f"{_OF}{ref.label}/"}


def ref_in(labels: Mapping[str, str]) -> ObjectRef | None:
    """The TrainJob that a job stands for; None for every other job."""
    label = labels.get(OBJECT_LABEL, "")
    if not label.startswith(_OF):
        return None
    namespace, name, uid, *_ = label.removeprefix(_OF).split("/")
    return ObjectRef(namespace=namespace, name=name, uid=uid)


def notes_of(trainjob: Document) -> Document:
    """Its annotations."""
    found: Document = trainjob["metadata"].get("annotations") or {}
    return found


def is_suspended(trainjob: Document) -> bool:
    """Whether its pods are to be none."""
    return bool(trainjob["spec"].get("suspend"))


def finished(trainjob: Document) -> tuple[str, str] | None:
    """``Complete`` or ``Failed`` with its sentence; None while it is not over."""
    for one in (trainjob.get("status") or {}).get("conditions") or ():
        if one["type"] in ("Complete", "Failed") and one["status"] == "True":
            return one["type"], one.get("message") or one.get("reason") or ""
    return None


def is_ours(trainjob: Document) -> bool:
    """Whether it is for us to decide: not MultiKueue's, and in no queue of Kueue."""
    labels = trainjob["metadata"].get("labels") or {}
    return trainjob["spec"].get("managedBy", BUILT_IN) == BUILT_IN and KUEUE not in labels


def path_of(namespace: str, name: str | None = None) -> str:
    """Where one is read, or all of a namespace."""
    base = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/trainjobs"
    return base if name is None else f"{base}/{name}"


def runtime_path(trainjob: Document) -> str:
    """Where its runtime is read."""
    ref = trainjob["spec"]["runtimeRef"]
    base = f"/apis/{GROUP}/{VERSION}"
    if ref.get("kind", "ClusterTrainingRuntime") == "TrainingRuntime":
        return (
            f"{base}/namespaces/{trainjob['metadata']['namespace']}/trainingruntimes/{ref['name']}"
        )
    return cluster_runtime_path(ref["name"])


def cluster_runtime_path(name: str) -> str:
    """Where a runtime of all namespaces is read."""
    return f"/apis/{GROUP}/{VERSION}/clustertrainingruntimes/{name}"


def asked_for(trainjob: Document, runtime: Document, settings: TrainerSettings) -> Asked:
    """What it asks for, its runtime reckoned with.

    Raises
    ------
    BadRequest
        When it asks for what we cannot give, with what to do.
    """
    spec, labels = trainjob["spec"], trainjob["metadata"].get("labels") or {}
    training = training_of(runtime)
    target = training["name"]
    _refuse_selectors(spec, target)
    trainer = spec.get("trainer") or {}
    pod = _pod(training, trainer)
    needs = asked_of(pod)
    pools, resource = _pools(labels, settings)
    _refuse_others(devices_of(pod, settings.resources), resource)
    nodes = trainer.get("numNodes") or (runtime["spec"].get("mlPolicy") or {}).get("numNodes") or 1
    priority = labels.get(PRIORITY)
    if priority is not None and priority not in _PRIORITIES:
        message = f"The label {PRIORITY} is {priority}: write one of {', '.join(_PRIORITIES)}."
        raise BadRequest(message)
    return Asked(
        nodes=int(nodes),
        milli_gpu=int(needs.get(resource, 0)) * 1000,
        cpu_milli=max(1, int(needs["cpu"] * 1000)) if "cpu" in needs else _CPU_MILLI,
        memory_mib=max(_LEAST_MIB, -(-int(needs["memory"]) >> 20))
        if "memory" in needs
        else _MEMORY_MIB,
        team=_team(trainjob, labels, settings),
        pools=pools,
        priority=priority,
        target=target,
    )


def training_of(runtime: Document) -> Document:
    """The runtime's job that trains.

    Raises
    ------
    BadRequest
        When there is not just one that has GPUs.
    """
    jobs = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    name = runtime["metadata"]["name"]
    policy = runtime["spec"].get("mlPolicy") or {}
    found = [
        job
        for job in jobs
        if ((job["template"].get("metadata") or {}).get("labels") or {}).get(ANCESTOR) == TRAINER
    ]
    others = [job for job in jobs if job not in found]
    with_gpus = [job["name"] for job in others if _asks_for_gpus(job)]
    if len(found) == 1 and policy.get("mpi") is None and not with_gpus:
        return found[0]  # type: ignore[no-any-return] # JSON
    why = (
        "starts its workers by MPI, with a launcher beside them"
        if policy.get("mpi") is not None
        else f"asks for GPUs in {', '.join(with_gpus)}, too"
        if with_gpus
        else f"has {len(found)} jobs with the label {ANCESTOR}={TRAINER}"
    )
    message = (
        f"The runtime {name} {why}. Only runtimes with one job that trains can wait in this line: take"
        " one such as torch-distributed."
    )
    raise BadRequest(message)


def _asks_for_gpus(job: Document) -> bool:
    return bool(devices_of(job["template"]["spec"]["template"]["spec"], ()))


def _refuse_others(devices: Mapping[str, int], resource: str) -> None:
    others = sorted(set(devices) - {resource})
    if others:
        message = (
            f"It asks for {', '.join(others)}: its pool gives out {resource} alone. Leave that out, or name"
            f" another pool with the label {POOL}."
        )
        raise BadRequest(message)


def _pod(training: Document, trainer: Document) -> Document:
    """The pod's spec as Trainer makes it: what a TrainJob asks for stands in place of the runtime's."""
    pod = training["template"]["spec"]["template"]["spec"]
    own = trainer.get("resourcesPerNode") or {}
    if not (own.get("limits") or own.get("requests")):
        return pod  # type: ignore[no-any-return] # JSON
    containers = [
        {**one, "resources": own} if one["name"] == NODE else one for one in pod["containers"]
    ]
    return {**pod, "containers": containers}


def _refuse_selectors(spec: Document, target: str) -> None:
    for one in spec.get("podSpecOverrides") or ():
        if one.get("nodeSelector") and target in _targets(one):
            message = (
                f"podSpecOverrides chooses nodes by nodeSelector, and so does this line: leave it out, and"
                f" name a pool with the label {POOL}."
            )
            raise BadRequest(message)


def _pools(labels: Document, settings: TrainerSettings) -> tuple[tuple[str, ...], str]:
    named = labels.get(POOL)
    if named is not None and named not in settings.pools:
        message = (
            f"The label {POOL} is {named}: the pools for TrainJobs are {_list(settings.pools)}."
        )
        raise BadRequest(message)
    pools = (named,) if named is not None else tuple(settings.pools)
    return pools, settings.pools[pools[0]].gpu_resource


def _team(trainjob: Document, labels: Document, settings: TrainerSettings) -> str:
    namespace = trainjob["metadata"]["namespace"]
    team = str(labels.get(TEAM, settings.namespaces[namespace].teams[0]))
    check_team(team, namespace, settings)
    return team


def check_team(team: str, namespace: str, settings: TrainerSettings) -> None:
    """Refuse a team that an admin has not named for a namespace.

    Raises
    ------
    BadRequest
        With those that may pay.
    """
    found = settings.namespaces.get(namespace)
    allowed = [] if found is None else found.teams
    if team not in allowed:
        message = (
            f"In the namespace {namespace} {_list(allowed) or 'nobody'} may pay, not {team}: write one of"
            f" them as the label {TEAM}, or ask an admin."
        )
        raise BadRequest(message)


def check_admitted(asked: Asked, role: Role) -> None:
    """Refuse to resume what asks for something else than its job has waited for.

    Raises
    ------
    BadRequest
        With what becomes of it.
    """
    if asked.size != (role.count, role.milli_gpu, role.cpu_milli, role.memory_mib):
        message = (
            "Its TrainJob was edited since it was handed in, and asks for something else now: it is handed"
            " in anew as it is."
        )
        raise BadRequest(message)


def _list(found: Sequence[str] | Mapping[str, Any]) -> str:
    return ", ".join(found)


# --- what we write into it -------------------------------------------------------------------


def _targets(override: Document) -> set[str]:
    return {one["name"] for one in override["targetJobs"]}


def _has_gate(override: Document) -> bool:
    return any(one["name"] == names.GATE for one in override.get("schedulingGates") or ())


def is_gated(trainjob: Document, target: str) -> bool:
    """Whether every pod of its training waits for our word."""
    overrides = trainjob["spec"].get("podSpecOverrides") or ()
    return any(target in _targets(one) and _has_gate(one) for one in overrides)


def overrides_with_gate(trainjob: Document, target: str) -> list[Document]:
    """Its overrides, so that every pod of its training waits for our word."""
    found = [dict(one) for one in trainjob["spec"].get("podSpecOverrides") or ()]
    gate = {"name": names.GATE}
    for one in found:
        # A job may stand in one override alone.
        if target in _targets(one):
            one["schedulingGates"] = [*(one.get("schedulingGates") or ()), gate]
            return list(found)
    return [*found, {"targetJobs": [{"name": target}], "schedulingGates": [gate]}]


def taking_charge(trainjob: Document, target: str) -> dict[str, Any]:
    """The patch by which a TrainJob waits for us; refused by the API server where it was just changed."""
    return {
        "metadata": _unchanged(trainjob),
        "spec": {"suspend": True, "podSpecOverrides": overrides_with_gate(trainjob, target)},
    }


def resuming(trainjob: Document, attempt_id: str, *, now_ms: int) -> dict[str, Any]:
    """The patch that lets its pods be made, for an attempt."""
    notes = notes_for(attempt_id, now_ms=now_ms)
    return {
        "metadata": {**_unchanged(trainjob), "annotations": notes},
        "spec": {"suspend": False},
    }


def notes_for(attempt_id: str, *, now_ms: int) -> dict[str, str]:
    """The annotations of one that runs."""
    return {ATTEMPT: attempt_id, SINCE: str(now_ms)}


def since_ms(notes: Mapping[str, str]) -> int:
    """When it was resumed; 0 where somebody else wrote what is no time."""
    told = notes.get(SINCE, "")
    return int(told) if told.isascii() and told.isdigit() and len(told) < _LONGEST_TIME else 0


def suspending() -> dict[str, Any]:
    """The patch that ends its pods."""
    return {"spec": {"suspend": True}}


def _unchanged(trainjob: Document) -> dict[str, Any]:
    return {"resourceVersion": trainjob["metadata"]["resourceVersion"]}


def noting(notes: Mapping[str, str | None]) -> dict[str, Any]:
    """The patch that writes our annotations."""
    return {"metadata": {"annotations": dict(notes)}}
