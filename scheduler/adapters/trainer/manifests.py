"""A job of ours as a TrainJob. Pure: a spec in, a document out.

What our own pods bring (files of a snapshot, secrets, parts of GPUs, reports to the scheduler) a TrainJob
does not. A job that needs it is refused before anything is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucommons.scheduler.adapters.trainer import trainjobs
from gpucommons.scheduler.adapters.trainer.settings import SentJobs, TrainerSettings
from gpucommons.scheduler.core.model.types import AttemptId, Role, Spec
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.executors.kubernetes.objects import names

_WHOLE = 1000


def check(spec: Spec, settings: TrainerSettings) -> None:
    """Refuse a job that a TrainJob cannot be.

    Raises
    ------
    BadRequest
        With what it lacks, and where else it can run.
    """
    sent = settings.sent
    why = "jobs of ours are not sent out here" if sent is None else _hindrance(spec, sent)
    if why:
        message = (
            f"Pool {spec.pools[0]} runs TrainJobs of Kubeflow Trainer, and {why}. Name another pool for it,"
            " or leave that out."
        )
        raise BadRequest(message)


def _hindrance(spec: Spec, sent: SentJobs) -> str:
    """Why a job can be no TrainJob, as a clause; "" where it can."""
    hindrances = {
        "it has several roles": len(spec.roles) > 1,
        "it is elastic": (spec.min_workers or 0) != (spec.max_workers or 0),
        "it asks for a part of a GPU": bool(spec.roles[0].milli_gpu % _WHOLE),
        "it brings files of a folder": spec.snapshot is not None,
        "it wants secrets of GPU Commons": bool(spec.secrets),
        "no image is known for its environment": not sent.image_of(spec.environment),
    }
    return next((clause for clause, holds in hindrances.items() if holds), "")


def trainjob_of(
    spec: Spec, notes: Mapping[str, str], sent: SentJobs, *, target: str, resource: str
) -> dict[str, Any]:
    """The TrainJob of one attempt: it runs once its pods are placed.

    ``notes``: which attempt it is for. ``target``: the runtime's job that trains. ``resource``: what GPUs are called in the job's pool.
    """
    role = spec.roles[0]
    return {
        "apiVersion": f"{trainjobs.GROUP}/{trainjobs.VERSION}",
        "kind": trainjobs.KIND,
        "metadata": {
            "name": names.base_name(AttemptId(notes[trainjobs.ATTEMPT])),
            "namespace": sent.namespace,
            "labels": {
                names.TEAM: names.label_value(spec.team),
                names.USER: names.label_value(spec.owner),
            },
            "annotations": {**notes, trainjobs.JOB: spec.name},
        },
        "spec": {
            "runtimeRef": {
                "apiGroup": trainjobs.GROUP,
                "kind": "ClusterTrainingRuntime",
                "name": sent.runtime,
            },
            "suspend": False,
            "trainer": {
                "image": sent.image_of(spec.environment),
                "command": list(role.command),
                "numNodes": role.count,
                "resourcesPerNode": {
                    "requests": _amounts(role, resource),
                    "limits": _gpus(role, resource),
                },
                "env": [{"name": name, "value": value} for name, value in sorted(spec.env.items())],
            },
            "podSpecOverrides": trainjobs.overrides_with_gate({"spec": {}}, target),
        },
    }


def _amounts(role: Role, resource: str) -> dict[str, str]:
    own = {"cpu": f"{role.cpu_milli}m", "memory": f"{role.memory_mib}Mi"}
    return {**own, **_gpus(role, resource)}


def _gpus(role: Role, resource: str) -> dict[str, str]:
    return {resource: str(role.milli_gpu // _WHOLE)} if role.milli_gpu else {}
