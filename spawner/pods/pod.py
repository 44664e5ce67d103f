"""What becomes of a notebook's pod: its own slice, and nothing of anybody else's.

Pure: a pod as the API's JSON in, the pod that may be created out. It runs last, after profiles,
hooks and admins' settings, and says each GPU key explicitly, so that nothing that one of them left
behind (a limit, a variable, a toleration) can hand a GPU to a pod that holds no slice.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpucommons.gpu.providers import Injection
from gpucommons.gpu.providers.cluster.pods import CSI_DRIVER
from gpucommons.gpu.providers.node.exclusive import NO_DEVICE
from gpucommons.scheduler.models import LeaseView, SliceView
from gpucommons.spawner.pods import pod_hibernation

Pod = dict[str, Any]

PREFIX = "gpucommons.io/"
#: Taint of a pool's nodes, label of the choice of a pool.
POOL_KEY = PREFIX + "pool"
DEVICES_ANNOTATION = PREFIX + "devices"
#: By them the scheduler finds the image of the notebook that a job is submitted from.
USER_ANNOTATION, SERVER_ANNOTATION = PREFIX + "user-name", PREFIX + "server-name"
#: The resource of NVIDIA's device plugin.
PLUGIN_RESOURCE = "nvidia.com/gpu"
#: KubeSpawner's name of the container with the server.
NOTEBOOK = "notebook"

_VISIBLE = "NVIDIA_VISIBLE_DEVICES"
#: What the device plugin says itself; a value in the pod would win over its word.
OF_THE_PLUGIN = frozenset({_VISIBLE, "CUDA_VISIBLE_DEVICES"})
GPU_VARIABLE = re.compile(
    r"NVIDIA_VISIBLE_DEVICES|NVIDIA_GPU_MEMORY_\w+|CUDA_VISIBLE_DEVICES|CUDA_MPS_\w+|GPUCOMMONS_\w+"
)
#: Allocation by a class of devices, under the name of a resource.
_CLASS_RESOURCE = "deviceclass.resource.kubernetes.io/"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, kw_only=True, slots=True)
class PodNeeds:
    """What one start of a notebook must find in its pod."""

    #: The user's name as a label may have it.
    user_label: str
    #: Whose notebook it is, and which of theirs: "" = the default one.
    user: str
    server_name: str
    #: All variables of ours, each with its final value.
    env: Mapping[str, str]
    #: None = a notebook without a GPU.
    lease: LeaseView | None = None
    injection: Injection = field(default_factory=Injection)
    #: Empty = whatever the admin set.
    priority_class: str = ""
    #: From the word to end until it is killed, for a pod that saves its kernels then; 0 = it cannot.
    saves_within_s: int = 0

    @property
    def held(self) -> SliceView | None:
        """The slice, if there is one."""
        return self.lease.slice if self.lease else None

    @property
    def labels(self) -> dict[str, str]:
        """Whose pod it is and what it holds."""
        found = {PREFIX + "kind": "notebook", PREFIX + "user": self.user_label}
        if self.lease is not None and self.lease.slice is not None:
            found[PREFIX + "workload"] = self.lease.id
            found[PREFIX + "team"] = self.lease.team
            found[PREFIX + "slice"] = self.lease.slice.slice_id
        return {**found, **self.injection.pod.labels}

    @property
    def annotations(self) -> dict[str, str]:
        """Where it was placed, for people and for tools."""
        found = {
            DEVICES_ANNOTATION: self.env.get(_VISIBLE, ""),
            USER_ANNOTATION: self.user,
            SERVER_ANNOTATION: self.server_name,
        }
        if self.held is not None:
            found[PREFIX + "node"] = self.held.node
            if self.held.visible_devices:
                found[PREFIX + "slots"] = ",".join(self.held.device_ids)
        return {**found, **self.injection.pod.annotations}


def is_gpu_resource(name: str) -> bool:
    """Whether a resource of this name is a GPU or a part of one, of any maker."""
    if name.startswith(("nvidia.com/", _CLASS_RESOURCE)):
        return True
    return "/" in name and "gpu" in name


def fitted(pod: Pod, needs: PodNeeds) -> Pod:
    """The pod with its slice in it; the same again where it was fitted before."""
    found = copy.deepcopy(pod)
    metadata, spec = found.setdefault("metadata", {}), found["spec"]
    metadata["labels"] = _own(metadata.get("labels")) | needs.labels
    metadata["annotations"] = _own(metadata.get("annotations")) | needs.annotations
    _without_slices(spec, needs.injection)
    for container in containers_of(spec):
        _without_gpu(container)
    notebook = notebook_of(found)
    for container in containers_of(spec):
        if container is not notebook:
            _set_env(container, {_VISIBLE: NO_DEVICE})
    env = {**needs.env, **_search_paths(notebook, needs.injection)}
    if needs.saves_within_s:
        env |= pod_hibernation.allow(spec, notebook, needs.saves_within_s)
    _set_env(notebook, env)
    _place(spec, needs)
    _provide(spec, notebook, needs)
    return found


def notebook_of(pod: Pod) -> dict[str, Any]:
    """The container with the server."""
    containers: Sequence[dict[str, Any]] = pod["spec"]["containers"]
    return next((c for c in containers if c.get("name") == NOTEBOOK), containers[0])


def _own(values: Mapping[str, str] | None) -> dict[str, str]:
    """Labels or annotations without any of ours that was left in them."""
    return {name: value for name, value in (values or {}).items() if not name.startswith(PREFIX)}


def containers_of(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """All containers that a pod is made with."""
    yield from spec.get("initContainers") or ()
    yield from spec["containers"]


def _without_slices(spec: dict[str, Any], given: Injection) -> None:
    """Folders of slices that something else put in."""
    drivers = {CSI_DRIVER, *(v["csi"]["driver"] for v in given.pod.volumes if "csi" in v)}
    volumes = spec.get("volumes") or ()
    foreign = {v["name"] for v in volumes if (v.get("csi") or {}).get("driver") in drivers}
    if not foreign:
        return
    spec["volumes"] = [v for v in volumes if v["name"] not in foreign]
    for container in containers_of(spec):
        mounts = container.get("volumeMounts") or ()
        container["volumeMounts"] = [m for m in mounts if m["name"] not in foreign]


def _without_gpu(container: dict[str, Any]) -> None:
    env = container.get("env") or ()
    container["env"] = [one for one in env if not GPU_VARIABLE.fullmatch(one["name"])]
    resources = container.get("resources") or {}
    for kind in ("limits", "requests"):
        amounts = resources.get(kind)
        if amounts:
            resources[kind] = {
                name: value for name, value in amounts.items() if not is_gpu_resource(name)
            }


def _set_env(container: dict[str, Any], env: Mapping[str, str]) -> None:
    """Our variables after all others: a variable may refer to earlier ones, ours to none."""
    kept = [one for one in container.get("env") or () if one["name"] not in env]
    ours = sorted(env, key=lambda name: (name == _VISIBLE, name))
    container["env"] = kept + [{"name": name, "value": env[name]} for name in ours]


def _search_paths(notebook: Mapping[str, Any], given: Injection) -> dict[str, str]:
    """Ours before whatever an admin set."""
    there = {one["name"]: one.get("value") or "" for one in notebook.get("env") or ()}
    found: dict[str, str] = {}
    for name, first in given.prepend.items():
        rest = there.get(name, "").removeprefix(first).removeprefix(":")
        found[name] = f"{first}:{rest}" if rest else first
    return found


def _place(spec: dict[str, Any], needs: PodNeeds) -> None:
    """On the chosen node, and only there."""
    tolerations = [
        one
        for one in spec.get("tolerations") or ()
        if not str(one.get("key") or "").startswith(PREFIX)
    ]
    held, lease = needs.held, needs.lease
    if held is not None and lease is not None:
        spec.pop("nodeName", None)
        tolerations.append(
            {"key": POOL_KEY, "operator": "Equal", "value": lease.pool, "effect": "NoSchedule"}
        )
        _on_node(spec, held.node)
        if needs.priority_class:
            spec["priorityClassName"] = needs.priority_class
    if tolerations or "tolerations" in spec:
        spec["tolerations"] = tolerations


def _on_node(spec: dict[str, Any], node: str) -> None:
    """Require the node by name, besides whatever an admin requires."""
    affinity = spec.get("affinity") or {}
    of_nodes = affinity.get("nodeAffinity") or {}
    required = of_nodes.get(REQUIRED) or {}
    # Terms are alternatives, so each of them must name the node.
    terms = required.get("nodeSelectorTerms") or [{}]
    by_name = {"key": "metadata.name", "operator": "In", "values": [node]}
    fixed = [
        {
            **term,
            "matchFields": [
                *(f for f in term.get("matchFields") or () if f.get("key") != "metadata.name"),
                by_name,
            ],
        }
        for term in terms
    ]
    of_nodes = {**of_nodes, REQUIRED: {**required, "nodeSelectorTerms": fixed}}
    spec["affinity"] = {**affinity, "nodeAffinity": of_nodes}


def _provide(spec: dict[str, Any], notebook: dict[str, Any], needs: PodNeeds) -> None:
    """What the provider of the slice adds."""
    parts = needs.injection.pod
    if parts.limits:
        resources = notebook.setdefault("resources", {})
        resources["limits"] = {**(resources.get("limits") or {}), **parts.limits}
    _merge(spec, "volumes", parts.volumes, key="name")
    _merge(notebook, "volumeMounts", parts.volume_mounts, key="mountPath")
    if parts.resource_claims:
        _merge(spec, "resourceClaims", parts.resource_claims, key="name")
        claims = [{"name": claim["name"]} for claim in parts.resource_claims]
        _merge(notebook.setdefault("resources", {}), "claims", claims, key="name")
    if parts.scheduler_name:
        spec["schedulerName"] = parts.scheduler_name
    if parts.runtime_class:
        spec["runtimeClassName"] = parts.runtime_class


def _merge(
    owner: dict[str, Any], name: str, added: Sequence[Mapping[str, Any]], *, key: str
) -> None:
    """Entries of a list by their key; the added ones win."""
    if not added:
        return
    taken = {one[key] for one in added}
    kept = [one for one in owner.get(name) or () if one.get(key) not in taken]
    owner[name] = [*kept, *(dict(one) for one in added)]
