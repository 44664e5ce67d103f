"""Objects as the API server writes them, with only what a test is about."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.slices.slices import SliceId
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    AttemptState,
    HoldClass,
    Kind,
    Millis,
    NodeId,
    PoolName,
    Role,
    Spec,
    State,
    Stop,
    TeamName,
    UserName,
    WorkerPlacement,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.kubernetes.api_server.connection import ApiError
from gpucommons.scheduler.executors.kubernetes.manifests.job_files import PlannedFiles
from gpucommons.scheduler.executors.kubernetes.manifests.pod_files import PodPlace
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import JobSeen, PodSeen

ATTEMPT_ID = AttemptId("0190aaaa-0000-7000-8000-000000000001")
JOB = f"gc-{ATTEMPT_ID}"
#: Of an installation without a storage.
FILES = PlannedFiles(place=PodPlace(image="ours"))


@dataclass
class SilentWatches:
    """Watches of a cluster in which nothing happens by itself, until they are closed."""

    _over: threading.Event = field(default_factory=threading.Event, kw_only=True)

    @contextmanager
    def _silence(self) -> Iterator[tuple[bytes, ...]]:
        self._over.wait()
        yield ()

    def stream(self, _path: str, **_query: object) -> Any:
        silence: Any = self._silence()
        silence.close = self._over.set
        return silence


@dataclass
class Discovery:
    """What an API server says that it serves, as far as other systems that make slices go by it."""

    #: By group: versions, and what each serves.
    groups: dict[str, dict[str, tuple[str, ...]]] = field(
        default_factory=lambda: {
            "scheduling.run.ai": {"v1alpha2": ("bindrequests",), "v2": ("queues", "queues/status")},
            "resource.k8s.io": {"v1": ("deviceclasses",)},
        }
    )
    classes: set[str] = field(default_factory=lambda: {"gpu.nvidia.com"})
    away: bool = False

    def get(self, path: str, **_query: object) -> dict[str, Any]:
        if self.away:
            raise ApiError(0, "Unreachable", "The API server does not answer.")
        match path.split("/")[2:]:
            case [group] if group in self.groups:
                return {"versions": [{"version": one} for one in self.groups[group]]}
            case [group, version]:
                served = self.groups[group][version]
                return {"resources": [{"name": one} for one in served]}
            case [_, _, "deviceclasses", name] if name in self.classes:
                return {}
        raise ApiError(404, "NotFound", path)


def an_attempt(*roles: str, milli_gpu: int = 1000, attempt_id: str = ATTEMPT_ID) -> Attempt:
    """An attempt with one worker per name, on nodes n0, n1 in turn."""
    named = roles or ("worker",)
    return Attempt(
        attempt_id=AttemptId(attempt_id),
        workload_id=WorkloadId("w-1"),
        number=2,
        state=AttemptState.STARTING,
        hold_class=HoldClass.OVER_QUOTA,
        placements=tuple(
            WorkerPlacement(
                role=role,
                index=named[:rank].count(role),
                node_id=NodeId(f"n{rank % 2}"),
                device_ids=(DeviceId(f"n{rank % 2}/gpu-{rank}"),) if milli_gpu else (),
                milli_gpu=milli_gpu,
                cpu_milli=2000,
                memory_mib=512,
                slice_id=SliceId(f"s-{rank}") if milli_gpu else None,
            )
            for rank, role in enumerate(named)
        ),
        reserved_ms=Millis(0),
    )


def a_launch(attempt: Attempt | None = None, **spec: Any) -> Launch:
    """A launch of vision/digits-7 by ada."""
    attempt = an_attempt() if attempt is None else attempt
    roles = tuple(
        Role(
            name=role,
            count=len(names.ranks_of(attempt, role)),
            milli_gpu=attempt.placements[names.ranks_of(attempt, role)[0]].milli_gpu,
            command=("python", f"{role}.py"),
        )
        for role in names.roles_of(attempt)
    )
    asked = Spec(
        kind=Kind.TRAINING,
        name="digits-7",
        team=TeamName("vision"),
        owner=UserName("ada"),
        submitted_by=UserName("ada"),
        pools=(PoolName("train"),),
        roles=roles,
    )
    workload = Workload(
        workload_id=attempt.workload_id,
        spec=replace(asked, **spec),
        state=State.STARTING,
        submitted_ms=Millis(0),
        since_ms=Millis(0),
        attempts=(attempt,),
    )
    return Launch(
        workload=workload,
        attempt=attempt,
        token_of=lambda _: "gca-token",
        api_url="http://gpucommons:8000",
    )


def a_stop(**changes: Any) -> Stop:
    """A preemption for nlp."""
    stop = Stop(
        why="preempt",
        text="for nlp",
        announced_ms=Millis(1000),
        term_ms=Millis(2000),
        kill_ms=Millis(3000),
    )
    return replace(stop, **changes)


def a_pod_seen(index: int = 0, **changes: Any) -> PodSeen:
    """A pod behind its gate."""
    pod = PodSeen(
        name=f"{JOB}-{index}-abcde",
        namespace="jobs",
        uid=f"uid-{index}",
        attempt_id=ATTEMPT_ID,
        job=JOB,
        index=index,
        gates=(names.GATE,),
        variables=("GPUCOMMONS_RANK",),
        gpus=1,
    )
    return replace(pod, **changes)


def a_running_pod(index: int = 0, **changes: Any) -> PodSeen:
    """One that was let go, and runs."""
    running = a_pod_seen(
        index, gates=(), placed=True, node=f"n{index % 2}", phase="Running", started=True
    )
    return replace(running, **changes)


def an_ended_pod(index: int = 0, exit_code: int = 0, **changes: Any) -> PodSeen:
    """One whose command ended."""
    ended = a_running_pod(
        index,
        phase="Failed" if exit_code else "Succeeded",
        exit_code=exit_code,
        finished_at=f"2026-11-21T10:00:{index:02}Z",
    )
    return replace(ended, **changes)


def a_job_seen(**changes: Any) -> JobSeen:
    """The Job of an attempt with one worker."""
    job = JobSeen(name=JOB, namespace="jobs", uid="job-uid", attempt_id=ATTEMPT_ID)
    return replace(job, **changes)


def a_job_document(**spec: Any) -> dict[str, Any]:
    """The Job of an attempt with one worker in the API's words."""
    labels = {names.INSTANCE: "gpucommons", names.ATTEMPT: ATTEMPT_ID, names.KIND: "training"}
    template = {"spec": {"terminationGracePeriodSeconds": 30}}
    spec = {"template": template, "parallelism": 1, "completions": 1, **spec}
    meta = {"name": JOB, "namespace": "jobs", "uid": "job-uid", "labels": labels}
    return {"metadata": meta, "spec": spec}


def a_pod(index: int = 0, **status: Any) -> dict[str, Any]:
    """A pod in the API's words."""
    return {
        "metadata": {
            "name": f"{JOB}-{index}-abcde",
            "namespace": "jobs",
            "uid": f"uid-{index}",
            "resourceVersion": "7",
            "labels": {
                names.INSTANCE: "gpucommons",
                names.KIND: "training",
                names.ATTEMPT: ATTEMPT_ID,
                names.COMPLETION_INDEX: str(index),
                names.JOB_NAME: JOB,
            },
            "annotations": {names.DEVICES: "void"},
        },
        "spec": {
            "schedulingGates": [{"name": names.GATE}],
            "containers": [
                {
                    "name": "worker",
                    "env": [{"name": "A", "value": "1"}],
                    "resources": {"limits": {"memory": "512Mi", "nvidia.com/gpu": "1"}},
                }
            ],
        },
        "status": {"phase": "Pending", **status},
    }
