"""Pools whose slices another system of the cluster makes: KAI, HAMi, or the cluster's own allocation.

Which node a worker goes to is our word there as everywhere; which of its cards it gets, and what keeps
it to its share, is that system's. So nothing of ours holds those cards, and what is promised of them is
what that system is known to keep. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, Device, DeviceId
from gpucommons.gpu.errors import SliceTooSmall
from gpucommons.gpu.providers import Grant, Injection
from gpucommons.gpu.providers.base import Capability
from gpucommons.gpu.providers.cluster.cluster import ClusterTraits, PodProvider, PodWish
from gpucommons.gpu.providers.cluster.pods import POD_PROVIDERS, foreign_injection
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId, format_milli_gpu
from gpucommons.scheduler.core.model.holds import slice_memory_mib
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.types import WorkerPlacement
from gpucommons.scheduler.errors import BadRequest, Unavailable
from gpucommons.scheduler.executors.base import Bound, Launch
from gpucommons.scheduler.executors.kubernetes.nodes.cluster_nodes import slots
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import NodeSeen
from gpucommons.scheduler.executors.kubernetes.settings import PoolPlace

#: A size is judged on this card while no node of the pool is there.
_ANY_CARD = Device(device_id=DeviceId("any"), index=0, kind="any", memory_mib=81_920)


def provider_of(place: PoolPlace) -> PodProvider | None:
    """Who makes the slices of a pool; None where we do."""
    return None if place.provider is None else POD_PROVIDERS[place.provider]


def bound_by(place: PoolPlace, pool: Pool, node: NodeSeen | None, milli_gpu: int) -> Bound:
    """What a notebook's spawner is told of a share on a node."""
    given = _grant(place, pool, () if node is None else (node,), milli_gpu)
    return Bound(
        provider=place.provider or "", isolation="none" if given is None else given.isolation
    )


def isolation_of(place: PoolPlace, pool: Pool, nodes: Iterable[NodeSeen]) -> str:
    """How well a pool keeps slices apart, said of its smallest ones."""
    seen = tuple(nodes)
    part = _grant(place, pool, seen, WHOLE_MILLI_GPU // 2)
    given = _grant(place, pool, seen, WHOLE_MILLI_GPU) if part is None else part
    return "none" if given is None else given.isolation


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """What is known of the whole cluster."""

    #: None where it could not be asked.
    traits: ClusterTraits | None
    #: Why not.
    unknown: str = ""


def why_unusable(
    place: PoolPlace, pool: Pool, nodes: Iterable[NodeSeen], cluster: Cluster
) -> str | None:
    """Why nobody makes slices on these nodes; None where somebody does on any of them, or we do."""
    provider = provider_of(place)
    if provider is None:
        return None
    found = _probes(provider, place, tuple(nodes), cluster.traits)
    if any(one.usable for one in found):
        return None
    why = cluster.unknown if cluster.traits is None else next((one.reason for one in found), None)
    if why is None:
        return None
    return (
        f"Pool {pool.name} leaves its slices to {provider.name}, which does not work there: {why}"
        f" Whoever runs the cluster must install it, or take provider: {provider.name} out of the"
        " pool's settings; until then the pool offers no GPUs."
    )


def _probes(
    provider: PodProvider,
    place: PoolPlace,
    nodes: tuple[NodeSeen, ...],
    known: ClusterTraits | None,
) -> list[Capability]:
    """What it says of each node."""
    if known is None:
        return []
    # A class of another pool is none of this one.
    classes = known.device_classes & {place.device_class}
    return [
        provider.probe(
            replace(
                known,
                device_classes=classes,
                node_annotations=node.registered,
                node_conditions=node.conditions,
            )
        )
        for node in nodes
    ]


def why_not(place: PoolPlace, pool: Pool, nodes: Iterable[NodeSeen], milli_gpu: int) -> str | None:
    """Why the pool makes no slices of this size; None where it does, or makes its own."""
    if place.provider is None or not milli_gpu:
        return None
    try:
        given = _quantized(place, pool, tuple(nodes), milli_gpu)
    except SliceTooSmall as error:
        return str(error)
    if given is not None:
        return None
    return (
        f"Pool {pool.name} gives whole GPUs only: its slices are made by {place.provider}, which"
        f" makes none of {format_milli_gpu(milli_gpu)} GPU there. Ask for whole GPUs, or for"
        " another pool."
    )


def injections(
    launch: Launch, place: PoolPlace, pool: Pool, nodes: Mapping[str, NodeSeen]
) -> dict[str, Injection]:
    """What the pods of each role with GPUs say, so that they get them; empty where we make slices.

    Raises
    ------
    BadRequest
        When a role's size is none that is made there.
    Unavailable
        While a node is not seen.
    """
    provider, found = provider_of(place), {}
    for role in names.roles_of(launch.attempt) if provider is not None else ():
        placement = launch.attempt.placements[names.ranks_of(launch.attempt, role)[0]]
        if not placement.device_ids:
            continue
        node = nodes.get(placement.node_id)
        if node is None:
            message = f"{placement.node_id} is not seen: the job starts when it is."
            raise Unavailable(message)
        if (why := why_not(place, pool, (node,), placement.milli_gpu)) is not None:
            raise BadRequest(why)
        wish = PodWish(
            container=names.CONTAINER,
            queue=launch.workload.spec.team,
            claim=names.job_name(launch.attempt, role),
            device_class=place.device_class,
            isolation=bound_by(place, pool, node, placement.milli_gpu).isolation,
        )
        held = _slice(placement, slots(node, pool, place, placement.device_ids))
        found[role] = _for_many(
            foreign_injection(POD_PROVIDERS[place.provider or ""], held, (), wish)
        )
    return found


def _slice(placement: WorkerPlacement, devices: Iterable[Device]) -> GpuSlice:
    held = [one for one in devices if one.device_id in placement.device_ids]
    return GpuSlice(
        slice_id=SliceId(placement.slice_id or ""),
        shares=tuple(
            DeviceShare(device_id=slot, milli_gpu=placement.milli_gpu)
            for slot in placement.device_ids
        ),
        memory_mib=slice_memory_mib(placement, held),
    )


def _for_many(given: Injection) -> Injection:
    """The same for all pods of a Job: a claim of one pod becomes the template of each pod's own."""
    claims = tuple(
        {"name": one["name"], "resourceClaimTemplateName": one["resourceClaimName"]}
        for one in given.pod.resource_claims
    )
    objects = tuple(_template(one) for one in given.pod.objects)
    return replace(given, pod=replace(given.pod, resource_claims=claims, objects=objects))


def _template(claim: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**claim, "kind": "ResourceClaimTemplate", "spec": {"spec": claim["spec"]}}


def _grant(
    place: PoolPlace, pool: Pool, nodes: tuple[NodeSeen, ...], milli_gpu: int
) -> Grant | None:
    try:
        return _quantized(place, pool, nodes, milli_gpu)
    except SliceTooSmall:
        return None


def _quantized(
    place: PoolPlace, pool: Pool, nodes: tuple[NodeSeen, ...], milli_gpu: int
) -> Grant | None:
    provider = provider_of(place)
    if provider is None:
        return None
    cards = (card for node in nodes for card in slots(node, pool, place))
    card = min(cards, key=lambda one: one.memory_mib, default=_ANY_CARD)
    return provider.quantize(card, min(milli_gpu, WHOLE_MILLI_GPU), _traits(place, nodes))


def _traits(place: PoolPlace, nodes: tuple[NodeSeen, ...]) -> ClusterTraits:
    """What holds on every node."""
    conditions = [node.conditions for node in nodes]
    return ClusterTraits(
        node_conditions=frozenset.intersection(*conditions) if conditions else frozenset(),
        shared_memory=place.shared_memory,
    )
