"""What the kubelet asks of a driver of volumes, read with suspicion: which pod, which slice, where.

The kubelet is trusted, what it passes on is not: names and attributes of a volume are whatever stands
in the pod. Paths are checked as text here, and used without following links.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpucommons.gpu.client.wire import slice_id_from
from gpucommons.gpu.errors import BadAgentRequest
from gpucommons.gpu.linux.pod_groups import POD_UID
from gpucommons.gpu.providers.cluster.pods import (
    ATTEMPT_ATTRIBUTE,
    RANKS_ATTRIBUTE,
    SLICE_ATTRIBUTE,
)
from gpucommons.gpu.slices.slices import SliceId, worker_slice

_PREFIX = "csi.storage.k8s.io/"
_POD_NAME, _POD_NAMESPACE, _POD_UID, _EPHEMERAL = (
    f"{_PREFIX}{name}" for name in ("pod.name", "pod.namespace", "pod.uid", "ephemeral")
)
#: An attempt's id, as the scheduler makes them.
_ATTEMPT = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: A pod of an Indexed Job: the Job's name, the completion index, five letters or digits.
_WORKER = re.compile(r"[a-z0-9.-]{1,240}-([0-9]{1,6})-[a-z0-9]{5}")
_RANKS = re.compile(r"[0-9]{1,6}(?:-[0-9]{1,6})?(?:,[0-9]{1,6}(?:-[0-9]{1,6})?)*")
_MAX_RANKS_CHARS = 4096
_VOLUME_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_MAX_ATTRIBUTES = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A pod that wants to be shown its slice."""

    slice_id: SliceId
    pod: str
    namespace: str
    #: Of the pod.
    name: str
    target: Path


def claim_of(
    context: Mapping[str, str],
    target_path: str,
    kubelet: Path,
    namespaces: Container[str] | None = None,
) -> Claim:
    """Read a request to publish; only pods of ``namespaces`` may have a slice, None = all.

    Raises
    ------
    BadAgentRequest
        When it names no slice, no pod, a pod of elsewhere, or a place that is not the pod's.
    """
    if len(context) > _MAX_ATTRIBUTES:
        raise BadAgentRequest(f"A volume of a slice has at most {_MAX_ATTRIBUTES} attributes.")
    if context.get(_EPHEMERAL) != "true":
        raise BadAgentRequest("A slice is an ephemeral volume: write it into the pod itself.")
    namespace = context.get(_POD_NAMESPACE, "")
    if namespaces is not None and namespace not in namespaces:
        raise BadAgentRequest(
            f"Pods of the namespace {namespace[:63]!r} are given no slices: only those where hub and "
            "scheduler make pods are. It can be added to the agent's --pod-namespaces."
        )
    pod = context.get(_POD_UID, "")
    target = target_of(target_path, kubelet)
    if pod_of_target(target, kubelet) != pod:
        raise BadAgentRequest(
            "The volume's place is not in the folder of the pod that asks for it."
        )
    return Claim(
        slice_id=_slice_of(context),
        pod=pod,
        namespace=namespace,
        name=context.get(_POD_NAME, ""),
        target=target,
    )


def target_of(target_path: str, kubelet: Path) -> Path:
    """The place of a volume, when it is one of ours to mount on.

    Raises
    ------
    BadAgentRequest
        When it is any other.
    """
    parts = Path(target_path).parts
    own = kubelet.parts
    rest = parts[len(own) :]
    match rest:
        case ("pods", pod, "volumes", "kubernetes.io~csi", name, "mount") if (
            parts[: len(own)] == own
            and "/".join((str(kubelet), *rest)) == target_path
            and POD_UID.fullmatch(pod)
            and _VOLUME_NAME.fullmatch(name)
        ):
            return Path(target_path)
        case _:
            raise BadAgentRequest("The volume's place is not one where the kubelet puts volumes.")


def pod_of_target(target: Path, kubelet: Path) -> str:
    """The pod that a place belongs to."""
    return target.parts[len(kubelet.parts) + 1]


def _slice_of(context: Mapping[str, str]) -> SliceId:
    named, attempt = context.get(SLICE_ATTRIBUTE), context.get(ATTEMPT_ATTRIBUTE)
    if (named is None) == (attempt is None):
        raise BadAgentRequest(
            f"The volume must name its {SLICE_ATTRIBUTE} or its {ATTEMPT_ATTRIBUTE}, one of them."
        )
    if attempt is None:
        return slice_id_from({"slice_id": named})
    worker = _WORKER.fullmatch(context.get(_POD_NAME, ""))
    if not _ATTEMPT.fullmatch(attempt) or worker is None:
        raise BadAgentRequest(
            "A volume that names an attempt belongs to a pod of that attempt's Job, whose name ends "
            "in the worker's completion index."
        )
    index, ranks = int(worker[1]), context.get(RANKS_ATTRIBUTE)
    # Where they are not said the Job has all of the attempt's workers.
    return worker_slice(attempt, index if ranks is None else _rank_of(ranks, index))


def _rank_of(ranks: str, index: int) -> int:
    """The rank that stands at an index of ``0,4-7``."""
    if len(ranks) > _MAX_RANKS_CHARS or not _RANKS.fullmatch(ranks):
        raise BadAgentRequest(
            f"The {RANKS_ATTRIBUTE} of a volume are numbers and spans of numbers, as 0,4-7, in at "
            f"most {_MAX_RANKS_CHARS} characters."
        )
    left = index
    for span in ranks.split(","):
        first, _, last = span.partition("-")
        row = range(int(first), int(last or first) + 1)
        if left < len(row):
            return row[left]
        left -= len(row)
    raise BadAgentRequest(
        f"The volume names {index - left} {RANKS_ATTRIBUTE}, none for the pod's completion index "
        f"{index}: it belongs to another Job's pods."
    )
