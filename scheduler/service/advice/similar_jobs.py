"""What jobs tell of a training of which nothing else is known: how long its steps took, on how many GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpucommons.scheduler import models
from gpucommons.scheduler.advisor.scaling import Seen
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import PoolName, Workload
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.advice.past import best_points
from gpucommons.scheduler.service.advice.places import Place
from gpucommons.scheduler.service.advice.plan_outcomes import gpus_of, median_step_s, other_unit
from gpucommons.scheduler.service.lookup import find_job
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.service.views.where_it_runs import pool_of_attempt
from gpucommons.scheduler.store.base import LogPoint

_REMEDY = (
    "Let its script print each step with a metric, as in `step 10 loss 0.4`, and run it again."
)
_TOO_FEW = "it told too few steps on real GPUs of these pools, with the driver that they have now"


def seen_of(
    service: Service,
    principal: Principal,
    request: models.AdviceRequest,
    places: Sequence[Place],
) -> tuple[dict[str, list[Seen]], tuple[str, ...]]:
    """Points of the named jobs by pool, as far as they are of its kind of GPU; and which jobs gave none.

    Raises
    ------
    UnknownWorkload, BadRequest, Forbidden
        When there is no such job, or the caller may not look.
    """
    network = request.network
    real = {one.name: one for one in places if not one.simulated}
    by_pool: dict[str, list[Seen]] = {pool: [] for pool in real}
    notes = []
    for ref in network.like if isinstance(network, models.UnknownModel) else ():
        found = find_job(service, principal, ref)
        authorization.jobs.curve(principal, found)
        points = best_points(service, found)
        why = other_unit(points)
        told = [] if why else list(_points(service.loop.cluster, found, points, real))
        for pools, gpus, nodes, step_s in told:
            local = request.batch / gpus
            for pool in pools:
                seen = Seen(gpus=gpus, nodes=nodes, local_batch=local, step_s=step_s)
                by_pool[pool].append(seen)
        if not told:
            remedy = f" {_REMEDY}" if why else ""
            why = why or _TOO_FEW
            notes.append(f"{found.spec.name} says nothing of this training's speed: {why}.{remedy}")
    return by_pool, tuple(notes)


def _points(
    cluster: Cluster, found: Workload, points: Sequence[LogPoint], places: Mapping[PoolName, Place]
) -> Iterator[tuple[list[PoolName], int, int, float]]:
    """Of each attempt that told enough: pools of whose GPUs and driver it tells, how many it had, on how
    many nodes, seconds of a step.
    """
    for attempt in found.attempts:
        gpus, pool = gpus_of(attempt), pool_of_attempt(cluster, found, attempt)
        place = None if pool is None else places.get(pool)
        if place is None:
            continue
        alike = [
            name
            for name, one in places.items()
            if one.pool.kind.name == place.pool.kind.name and one.has_driver(attempt.drivers)
        ]
        step_s = median_step_s(points, {attempt.number}) if alike else None
        if gpus and step_s is not None:
            yield alike, gpus, len({one.node_id for one in attempt.placements}), step_s
