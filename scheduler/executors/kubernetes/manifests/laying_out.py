"""From a launch to what is to be made for it: the choices that the manifests are written from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpucommons.scheduler.core.model.resources import Node, Pool
from gpucommons.scheduler.core.model.types import PoolName
from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.kubernetes.attempts.observed_state import Expected
from gpucommons.scheduler.executors.kubernetes.manifests import manifests
from gpucommons.scheduler.executors.kubernetes.manifests.hibernation import tree_plan
from gpucommons.scheduler.executors.kubernetes.manifests.job_files import JobFiles
from gpucommons.scheduler.executors.kubernetes.manifests.manifests import Way
from gpucommons.scheduler.executors.kubernetes.nodes.cluster_nodes import Holdings, nodes_of
from gpucommons.scheduler.executors.kubernetes.nodes.other_systems import injections
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import NodeSeen
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings, PoolTraits

Document = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class LayOut:
    """All objects of an attempt; those that a Job owns are made when its uid is known."""

    launch: Launch
    way: Way
    jobs: tuple[Document, ...]

    def owned(self, owner: Document) -> tuple[tuple[str, Document], ...]:
        """What belongs to the first Job, by resource."""
        found = [("secrets", manifests.secret(self.launch, self.way, owner))]
        service = manifests.service(self.launch, self.way, owner)
        if service is not None:
            found.append(("services", service))
        for made in self.way.made.values():
            found += (
                (f"{body['kind'].lower()}s", manifests.of_job(self.launch, self.way, body, owner))
                for body in made.pod.objects
            )
        return tuple(found)


def lay_out(
    launch: Launch,
    settings: KubernetesSettings,
    pool: Pool | None,
    files: JobFiles,
    nodes: Mapping[str, NodeSeen] | None = None,
) -> LayOut:
    """Decide how an attempt is made; ``nodes`` are those that are seen.

    Raises
    ------
    BadRequest
        When its environment is none of this cluster's, or its pool makes no such slices.
    Unavailable
        While what must be known of its nodes is not.
    """
    spec = launch.workload.spec
    name = spec.pools[0] if pool is None else pool.name
    place = settings.place_of(name)
    of_pool = pool or Pool(name=PoolName(name), executor="kubernetes")
    way = Way(
        settings=settings,
        traits=PoolTraits(place=place) if pool is None else _traits(pool, settings),
        pool=name,
        namespace=settings.namespace_of(spec.team),
        image=settings.image_of(spec.environment),
        files=files.files(launch, settings),
        commands=files.commands(launch),
        made=injections(launch, place, of_pool, nodes or {}),
        tree=tree_plan(launch, of_pool, _node_of(launch, of_pool, settings, nodes or {})),
    )
    return LayOut(launch=launch, way=way, jobs=manifests.jobs(launch, way))


def _node_of(
    launch: Launch, pool: Pool, settings: KubernetesSettings, nodes: Mapping[str, NodeSeen]
) -> Node | None:
    """Where its first worker runs, as it is now."""
    placement = launch.attempt.placements[0]
    seen = nodes.get(placement.node_id)
    if seen is None:
        return None
    held = Holdings(taken={}, held=frozenset(placement.device_ids))
    return next(iter(nodes_of((seen,), (pool,), settings, held)), None)


def _traits(pool: Pool, settings: KubernetesSettings) -> PoolTraits:
    return PoolTraits(grace_ms=pool.grace_ms, place=settings.place_of(pool.name))


def expected_of(plan: LayOut) -> Expected:
    """What the pods must look like when the cluster shows them."""
    gpus: dict[str, int | None] = {}
    last: dict[str, str | None] = {}
    for role in names.roles_of(plan.launch.attempt):
        if role in plan.way.made:
            # That system's own webhook writes resources and variables of its pods.
            gpus[role] = last[role] = None
            continue
        first = plan.launch.attempt.placements[names.ranks_of(plan.launch.attempt, role)[0]]
        gpus[role] = manifests.from_plugin(plan.way.traits, first)
        last[role] = None if gpus[role] else "NVIDIA_VISIBLE_DEVICES"
    return Expected(gpus=gpus, last=last)
