"""What the cluster made of a pod on its way in: admission webhooks may change anything.

A changed key of the slice means that the pod may use what it does not hold, or not what it holds;
such a pod must not run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucommons.spawner.pods.pod import (
    GPU_VARIABLE,
    PREFIX,
    REQUIRED,
    Pod,
    containers_of,
    is_gpu_resource,
    notebook_of,
)

#: Where the interposer is found, if there is one.
_LIBRARIES = "LD_LIBRARY_PATH"


def changed(asked: Pod, stored: Pod, *, foreign: bool = False) -> list[str]:
    """The keys of the slice that are not in the cluster as they were asked.

    ``foreign``: another system makes the slice, and writes variables and resources itself.
    """
    wrong: list[str] = []
    for part in ("labels", "annotations"):
        before, after = (_ours(pod["metadata"].get(part)) for pod in (asked, stored))
        wrong += _differing(before, after)
    if not foreign:
        wrong += _differing(_env(notebook_of(asked)), _env(notebook_of(stored)))
    if not foreign and _gpu_amounts(asked["spec"]) != _gpu_amounts(stored["spec"]):
        wrong.append("the GPUs it asks of the device plugin")
    if not _nodes(asked["spec"]) <= _nodes(stored["spec"]):
        wrong.append("its node")
    if not _drivers(asked["spec"]) <= _drivers(stored["spec"]):
        wrong.append("the folder of its slice")
    return wrong


def _differing(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    return [name for name in sorted({**before, **after}) if before.get(name) != after.get(name)]


def _ours(values: Mapping[str, str] | None) -> dict[str, str]:
    return {name: value for name, value in (values or {}).items() if name.startswith(PREFIX)}


def _env(container: Mapping[str, Any]) -> dict[str, object]:
    return {
        one["name"]: one.get("valueFrom") or one.get("value", "")
        for one in container.get("env") or ()
        if one["name"] == _LIBRARIES or GPU_VARIABLE.fullmatch(one["name"])
    }


def _gpu_amounts(spec: Mapping[str, Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for container in containers_of(spec):
        for name, amount in ((container.get("resources") or {}).get("limits") or {}).items():
            if is_gpu_resource(name):
                found[name] = found.get(name, 0) + int(amount)
    return found


def _nodes(spec: Mapping[str, Any]) -> set[str]:
    """The nodes that are required by name."""
    of_nodes = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (of_nodes.get(REQUIRED) or {}).get("nodeSelectorTerms") or ()
    return {
        value
        for term in terms
        for one in term.get("matchFields") or ()
        for value in one.get("values") or ()
    }


def _drivers(spec: Mapping[str, Any]) -> set[str]:
    return {one["csi"]["driver"] for one in spec.get("volumes") or () if one.get("csi")}
