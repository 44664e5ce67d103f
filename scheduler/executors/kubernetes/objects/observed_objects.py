"""What is kept of the API's objects: the few fields that decisions are made from.

A cluster sends each object many times, and thousands of whole ones would fill the memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpucommons.gpu.hibernation.containers import RESOURCE as HIBERNATE
from gpucommons.gpu.providers.cluster import hami, kai
from gpucommons.scheduler.core.model.types import AttemptId
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.objects.cards_in_use import Use, uses_of
from gpucommons.scheduler.executors.kubernetes.objects.quantities import (
    amount_of,
    asked_of,
    cpu_of,
    memory_of,
)
from gpucommons.scheduler.in_pod.worker import NOT_EXECUTABLE, NOT_FOUND

Document = Mapping[str, Any]

_TERMINAL = frozenset({"Succeeded", "Failed"})


#: Taints of Karpenter (the second as releases before 1.1 write it) and of the cluster autoscaler, on
#: nodes that are about to go, or that are not all there yet: no pod of ours tolerates them.
_COMES_OR_GOES = frozenset(
    [
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
        "karpenter.sh/unregistered",
        "ToBeDeletedByClusterAutoscaler",
    ]
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Why:
    """A reason and message in the cluster's own words."""

    reason: str = ""
    message: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PodSeen:
    """A pod of one of our attempts."""

    name: str
    namespace: str
    uid: str
    attempt_id: AttemptId
    job: str
    #: Completion index.
    index: int
    #: Its user, as a label names them.
    owner: str = ""
    node: str | None = None
    gates: tuple[str, ...] = ()
    phase: str = "Pending"
    #: It is being deleted, and killed at that time (UTC milliseconds) if it does not end before.
    killed_at_ms: int | None = None
    #: When somebody asked for that.
    deleted_at_ms: int | None = None
    #: From SIGTERM to SIGKILL.
    grace_s: int = 30
    #: The job's command runs, or ran.
    started: bool = False
    #: Of the job's command, once it ended.
    exit_code: int | None = None
    #: What its container was to run, of one that may not have been able to.
    command: tuple[str, ...] = ()
    #: As the API writes times: they compare as text.
    finished_at: str = ""
    #: Why it ended, where the container says so: ``OOMKilled``, ``StartError``.
    end: Why = Why()
    #: What a container waits for.
    waiting: Why = Why()
    #: The cluster took it away: preemption, eviction, a lost node.
    disrupted: Why = Why()
    unschedulable: str = ""
    #: Environment variables of the job's container, in order, and its GPU limit: to see changes.
    variables: tuple[str, ...] = ()
    gpus: int = 0
    #: Something has chosen among nodes for it already, for example its runtime class.
    has_selector: bool = False
    #: Our patch has sent it on its way.
    placed: bool = False
    #: The cards that it was told, by slot.
    uses: tuple[Use, ...] = ()

    @property
    def terminal(self) -> bool:
        """No container of it runs or will run."""
        return self.phase in _TERMINAL

    @property
    def lingers(self) -> bool:
        """Its command ended, and some other container of it runs on."""
        return self.exit_code is not None and not self.terminal

    @property
    def deleting(self) -> bool:
        """It is on its way out."""
        return self.killed_at_ms is not None

    @property
    def gated(self) -> bool:
        """It waits for our word."""
        return names.GATE in self.gates


@dataclass(frozen=True, kw_only=True, slots=True)
class Gone:
    """A pod that takes no room any more."""

    uid: str


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherPod:
    """A pod of somebody else, as far as it takes room on a node."""

    uid: str
    node: str
    #: GPUs that it asks of the device plugin.
    gpus: int
    cpu_milli: int
    memory_mib: int
    #: The same where KAI hands out the GPUs, parts and all.
    kai_gpus: int = 0
    #: Claims on devices, whatever they are.
    claims: int = 0
    #: What else it asks of device plugins, by resource: instances of cut cards are.
    extended: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSeen:
    """A Job of one of our attempts."""

    name: str
    namespace: str
    uid: str
    attempt_id: AttemptId
    #: The scheduler's job, and its user, as labels name them.
    workload: str = ""
    owner: str = ""
    suspended: bool = False
    parallelism: int = 1
    completions: int = 1
    deleting: bool = False
    #: ``Complete`` or ``Failed``, when it is over.
    finished: str | None = None
    failure: Why = Why()
    #: As the API writes it: ``0-2,5``.
    completed_indexes: str = ""
    #: From SIGTERM to SIGKILL, as its pods were made.
    grace_s: int = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeSeen:
    """A node."""

    name: str
    labels: Mapping[str, str]
    ready: bool
    #: Since when its readiness is what it is, UTC seconds.
    ready_changed_s: float
    #: Nothing new may be put there: by an admin's word, or an autoscaler's.
    cordoned: bool
    #: Keys of its taints.
    taints: frozenset[str] = frozenset()
    #: Extended resources that may be used.
    allocatable: Mapping[str, int]
    cpu_milli: int
    memory_mib: int
    address: str = ""
    #: Of the conditions that are true, those that say how GPUs are shared out.
    conditions: frozenset[str] = frozenset()
    #: Another system registered its GPUs: names of the annotations that say so.
    registered: frozenset[str] = frozenset()


def read_pod(pod: Document) -> PodSeen | None:
    """A pod of ours; None where it is none."""
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    labels = meta.get("labels") or {}
    attempt_id, index = labels.get(names.ATTEMPT), labels.get(names.COMPLETION_INDEX)
    if attempt_id is None or index is None:
        return None
    container = _container(spec.get("containers") or ())
    told = _status(status.get("containerStatuses") or (), names.CONTAINER)
    state = told.get("state") or {}
    ended, conditions = state.get("terminated"), _conditions(status)
    limits = (container.get("resources") or {}).get("limits") or {}
    return PodSeen(
        name=meta["name"],
        namespace=meta["namespace"],
        uid=meta["uid"],
        attempt_id=AttemptId(attempt_id),
        job=labels.get(names.JOB_NAME, ""),
        index=int(index),
        owner=labels.get(names.USER, ""),
        node=spec.get("nodeName"),
        gates=tuple(gate["name"] for gate in spec.get("schedulingGates") or ()),
        phase=status.get("phase", "Pending"),
        killed_at_ms=(killed_at_ms := _deadline_ms(meta)),
        deleted_at_ms=_deleted_at_ms(meta, killed_at_ms),
        grace_s=spec.get("terminationGracePeriodSeconds", 30),
        # A container that wakes something runs, but has not started before that is over.
        started=("running" in state and told.get("started") is not False)
        or (ended is not None and bool(ended.get("startedAt"))),
        exit_code=None if ended is None else ended.get("exitCode"),
        command=_command(container, ended or {}),
        finished_at="" if ended is None else ended.get("finishedAt") or "",
        end=_why(ended) if ended is not None else _why(status),
        waiting=_waiting(status),
        disrupted=_why(conditions.get("DisruptionTarget")),
        unschedulable=_unschedulable(conditions.get("PodScheduled")),
        variables=tuple(one["name"] for one in container.get("env") or ()),
        gpus=sum(
            int(n) for name, n in limits.items() if "/" in name and name != HIBERNATE and _whole(n)
        ),
        has_selector=bool(spec.get("nodeSelector")),
        placed=names.NODE in (notes := meta.get("annotations") or {}),
        uses=uses_of(notes.get(names.SLOTS, ""), notes.get(names.DEVICES, "")),
    )


def _command(container: Document, ended: Document) -> tuple[str, ...]:
    """Of thousands of pods it is not kept; ``$$`` is how the API writes a dollar sign."""
    if ended.get("exitCode") not in (NOT_FOUND, NOT_EXECUTABLE):
        return ()
    return tuple(one.replace("$$", "$") for one in container.get("command") or ())


def _whole(quantity: Any) -> bool:
    return str(quantity).isdigit()


def _container(containers: Iterable[Document]) -> Document:
    return next((one for one in containers if one["name"] == names.CONTAINER), {})


def _status(statuses: Iterable[Document], name: str) -> Document:
    return next((one for one in statuses if one["name"] == name), {})


def _why(found: Document | None) -> Why:
    if not found or found.get("status") == "False":
        return Why()
    return Why(reason=found.get("reason") or "", message=found.get("message") or "")


def _conditions(status: Document) -> dict[str, Document]:
    return {one["type"]: one for one in status.get("conditions") or ()}


def _waiting(status: Document) -> Why:
    """What keeps the first container that waits; a failed init container counts as well."""
    for one in status.get("initContainerStatuses") or ():
        state = one.get("state") or {}
        failed = state.get("terminated")
        if failed is not None and failed.get("exitCode"):
            said = failed.get("message") or f"exit status {failed['exitCode']}"
            return Why(reason="InitFailed", message=said)
        if "waiting" in state:
            return _why(state["waiting"])
    told = _status(status.get("containerStatuses") or (), names.CONTAINER)
    return _why((told.get("state") or {}).get("waiting"))


def _unschedulable(scheduled: Document | None) -> str:
    if scheduled is None or scheduled.get("reason") != "Unschedulable":
        return ""
    return str(scheduled.get("message") or "")


def read_other(pod: Document) -> OtherPod | None:
    """A pod of somebody else that takes room on a node; None where it takes none."""
    spec = pod["spec"]
    node, phase = spec.get("nodeName"), (pod.get("status") or {}).get("phase")
    if not node or phase in _TERMINAL:
        return None
    asked = asked_of(spec)
    extended = {name: int(amount) for name, amount in asked.items() if "/" in name}
    gpus = sum(count for name, count in extended.items() if name.endswith("/gpu"))
    meta = pod["metadata"]
    return OtherPod(
        uid=meta["uid"],
        node=node,
        gpus=gpus,
        cpu_milli=int(asked.get("cpu", 0) * 1000),
        memory_mib=int(asked.get("memory", 0)) >> 20,
        kai_gpus=kai.gpus_taken(meta.get("namespace", ""), meta.get("annotations") or {}, gpus),
        claims=len(spec.get("resourceClaims") or ()),
        extended=tuple(sorted(extended.items())),
    )


def read_job(job: Document) -> JobSeen | None:
    """A Job of ours; None where it is none."""
    meta, spec, status = job["metadata"], job["spec"], job.get("status") or {}
    labels = meta.get("labels") or {}
    attempt_id = labels.get(names.ATTEMPT)
    if attempt_id is None:
        return None
    conditions = {kind: one for kind, one in _conditions(status).items() if one["status"] == "True"}
    finished = next((kind for kind in ("Complete", "Failed") if kind in conditions), None)
    return JobSeen(
        name=meta["name"],
        namespace=meta["namespace"],
        uid=meta["uid"],
        attempt_id=AttemptId(attempt_id),
        workload=labels.get(names.WORKLOAD, ""),
        owner=labels.get(names.USER, ""),
        suspended=bool(spec.get("suspend")),
        parallelism=int(spec.get("parallelism") or 0),
        completions=int(spec.get("completions") or 0),
        deleting="deletionTimestamp" in meta,
        finished=finished,
        failure=_why(conditions.get("Failed") or conditions.get("FailureTarget")),
        completed_indexes=status.get("completedIndexes") or "",
        grace_s=spec["template"]["spec"].get("terminationGracePeriodSeconds", 30),
    )


def read_node(node: Document) -> NodeSeen:
    """A node."""
    meta, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    taints = frozenset(taint["key"] for taint in spec.get("taints") or ())
    conditions = _conditions(status)
    ready = conditions.get("Ready") or {}
    allocatable = status.get("allocatable") or {}
    addresses = {one["type"]: one["address"] for one in status.get("addresses") or ()}
    return NodeSeen(
        name=meta["name"],
        labels=meta.get("labels") or {},
        ready=ready.get("status") == "True",
        ready_changed_s=seconds_of(ready.get("lastTransitionTime")),
        cordoned=bool(spec.get("unschedulable") or taints & _COMES_OR_GOES),
        taints=taints,
        allocatable={k: int(amount_of(v)) for k, v in allocatable.items() if "/" in k},
        cpu_milli=cpu_of(allocatable.get("cpu", 0)),
        memory_mib=memory_of(allocatable.get("memory", 0)),
        address=addresses.get("InternalIP", ""),
        conditions=frozenset(
            name
            for name in kai.READY_CONDITIONS
            if conditions.get(name, {}).get("status") == "True"
        ),
        registered=frozenset({hami.REGISTERED} & (meta.get("annotations") or {}).keys()),
    )


def _deadline_ms(meta: Document) -> int | None:
    text = meta.get("deletionTimestamp")
    return None if text is None else int(seconds_of(text) * 1000)


def _deleted_at_ms(meta: Document, killed_at_ms: int | None) -> int | None:
    if killed_at_ms is None:
        return None
    return killed_at_ms - 1000 * int(meta.get("deletionGracePeriodSeconds") or 0)


def seconds_of(text: str | None) -> float:
    """A time as the API writes it, in UTC seconds; 0 where there is none."""
    return 0.0 if not text else datetime.fromisoformat(text).timestamp()


def indexes(text: str) -> frozenset[int]:
    """The numbers of ``0-2,5``."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)
