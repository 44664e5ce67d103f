"""The one patch that sends a pod on its way, and the small ones that stop it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpucommons.scheduler.core.model.types import Attempt, WorkerPlacement
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import PodSeen

Patch = list[dict[str, Any]]

#: As many failures as there may be.
_ANY = 2**31 - 1
#: Ends that the API server books who wrote which field, until somebody applies the object on the server's
#: side. That bookkeeping is a third of what a job costs it, and half of a pod's size in every watch.
_NO_FIELD_MANAGERS: list[dict[str, str]] = [{}]


def lift(
    pod: PodSeen, attempt: Attempt, rank: int, node: Mapping[str, str], devices: Sequence[str] = ()
) -> Patch:
    """Annotations, node and gate in one step: there is no moment in which only some of it holds.

    ``node`` are the labels that name its node, ``devices`` the UUIDs that reservations hold for this worker.
    """
    gate = pod.gates.index(names.GATE)
    return [
        # Somebody else may have taken a gate away meanwhile: then the place is another one.
        {"op": "test", "path": f"/spec/schedulingGates/{gate}/name", "value": names.GATE},
        *(
            {"op": "add", "path": f"/metadata/annotations/{_escaped(key)}", "value": value}
            for key, value in _annotations(attempt, rank, devices).items()
        ),
        *_to_node(pod, node),
        {"op": "add", "path": "/metadata/managedFields", "value": _NO_FIELD_MANAGERS},
        {"op": "remove", "path": f"/spec/schedulingGates/{gate}"},
    ]


def _to_node(pod: PodSeen, node: Mapping[str, str]) -> Patch:
    if not pod.has_selector:
        return [{"op": "add", "path": "/spec/nodeSelector", "value": dict(node)}]
    return [
        {"op": "add", "path": f"/spec/nodeSelector/{_escaped(key)}", "value": value}
        for key, value in node.items()
    ]


def _annotations(attempt: Attempt, rank: int, devices: Sequence[str]) -> Mapping[str, str]:
    placement: WorkerPlacement = attempt.placements[rank]
    return {
        names.DEVICES: ",".join(devices) or names.NO_DEVICE,
        names.SLOTS: ",".join(placement.device_ids) if devices else "",
        names.NODE: placement.node_id,
        names.RANK: str(rank),
        names.SLICE: placement.slice_id or "",
    }


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def suspend() -> dict[str, Any]:
    """Stop a Job: its pods get SIGTERM and their grace, its status keeps who succeeded.

    How its pods end counts no more. Else one that we told to end before would make the Job fail, which
    Kubernetes 1.36 cannot write for a Job that is suspended and tries again and again.
    """
    return {
        "metadata": {"managedFields": _NO_FIELD_MANAGERS},
        "spec": {"suspend": True, "backoffLimit": _ANY},
    }
