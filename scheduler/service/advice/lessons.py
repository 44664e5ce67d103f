"""What the hub's own runs teach a question: constants, corrections, and how other trainings scale."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from gpucommons.scheduler.advisor.history import ABSURD, Asked, Run, faded
from gpucommons.scheduler.advisor.kinds import Pool, shipped
from gpucommons.scheduler.advisor.layout import NO_RECOMPUTE, Layout
from gpucommons.scheduler.advisor.learning.learned import Kept, Learned, learn
from gpucommons.scheduler.advisor.learning.scalings import Named, believed_of
from gpucommons.scheduler.advisor.learning.training import read, read_points
from gpucommons.scheduler.advisor.scaling import Believed, Seen
from gpucommons.scheduler.advisor.signature import UNKNOWN
from gpucommons.scheduler.core.model.types import Millis, PoolName
from gpucommons.scheduler.service.advice.advisor_question import Asking, Like
from gpucommons.scheduler.service.advice.places import Place, place_of
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.store.plans.base import JudgedRun

#: Ages are read off once an hour: half-lives are weeks.
_HOUR_MS = 3_600_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Taught:
    """For one pool."""

    learned: Learned
    believed: Believed | None = None


def taught(service: Service, asking: Asking, place: Place) -> Taught:
    """What runs on this pool's kind of GPU, driver and environment teach; simulated GPUs teach nothing."""
    runs = [
        one
        for one in asking.like.runs
        if _compares(one, asking.like, place) and not _is_ahead(one, asking.now_ms)
    ]
    if place.simulated or not runs:
        return Taught(learned=Learned(constants=place.known))
    now_ms = Millis(asking.now_ms // _HOUR_MS * _HOUR_MS)
    seen = [f"{one.workload_id}/{one.ended_ms}" for one in runs]
    of = (asking.like.team, asking.like.signature, asking.like.family, asking.like.network, now_ms)
    question = (
        f"{of!r} {place.pool!r} {place.known!r} {place.name} {place.drivers!r}"
        f" {asking.like.environment!r} {seen!r}"
    )
    return service.lessons.of(
        question, lambda: _worked_out(service, asking.like, place, runs, now_ms)
    )


def _worked_out(
    service: Service, like: Like, place: Place, runs: Sequence[JudgedRun], now_ms: Millis
) -> Taught:
    if like.family == UNKNOWN:
        asked = Named(project=like.team, name=like.signature)
        believed = believed_of(asked, _points(runs, place.pool, now_ms))
        return Taught(learned=Learned(constants=place.known), believed=believed)
    kept = list(_kept(service, place, runs, now_ms))
    if kept:
        return Taught(learned=learn(asked_of(like, place), kept, place.known))
    older = tuple(_older(runs, like, now_ms))
    return Taught(learned=Learned(constants=place.known, runs=older))


def asked_of(like: Like, place: Place) -> Asked:
    """Where the question belongs among runs."""
    return Asked(
        job=like.signature,
        project=like.team,
        family=like.family,
        kind=place.pool.kind.name,
        gpus=1,
        environment=like.environment,
        network=like.network,
        probed=place.measured_ms is not None and not place.simulated,
    )


def of_another_driver(like: Like, place: Place) -> int:
    """How many runs would be counted, had they run with the driver that the pool has now."""
    if place.simulated:
        return 0
    alike = [one for one in like.runs if _is_alike(one, like, place)]
    return sum(not place.has_driver(one.actual.drivers) for one in alike)


def of_the_future(like: Like, place: Place, now_ms: Millis) -> int:
    """How many runs would be counted, did they not end later than it is now: a clock was wrong."""
    if place.simulated:
        return 0
    alike = [one for one in like.runs if _compares(one, like, place)]
    return sum(_is_ahead(one, now_ms) for one in alike)


def _is_ahead(run: JudgedRun, now_ms: Millis) -> bool:
    """How old it is nobody knows: it would count as one of today until that day has come."""
    return run.ended_ms > now_ms + _HOUR_MS


def _compares(run: JudgedRun, like: Like, place: Place) -> bool:
    return _is_alike(run, like, place) and place.has_driver(run.actual.drivers)


def _is_alike(run: JudgedRun, like: Like, place: Place) -> bool:
    same = run.actual.environment == like.environment
    return same and run.plan.gpu_kind == place.pool.kind.name


def _kept(
    service: Service, place: Place, runs: Iterable[JudgedRun], now_ms: Millis
) -> Iterator[Kept]:
    """Each on its own pool as that is known now."""
    cluster, pools = service.loop.cluster, {str(place.name): place.pool}
    for run in runs:
        training, name = read(run.plan.training), run.actual.pool
        if name not in pools and name in cluster.pools:
            found = place_of(cluster, PoolName(name), shipped())
            if isinstance(found, Place):
                pools[name] = found.pool
        if training is None or name not in pools or run.actual.step_s is None:
            continue
        yield Kept(
            training=training,
            pool=pools[name],
            measured_s=run.actual.step_s,
            job=run.plan.signature,
            project=run.team,
            family=run.plan.family,
            age_s=_age_s(run, now_ms),
            environment=run.actual.environment,
        )


def _older(runs: Iterable[JudgedRun], like: Like, now_ms: Millis) -> Iterator[Run]:
    """What an older release kept: a formula's seconds, and no numbers behind them."""
    for run in runs:
        measured = run.actual.step_s
        if measured is None or run.plan.family == UNKNOWN or run.plan.formula_s <= 0:
            continue
        if 1 / ABSURD <= measured / run.plan.formula_s <= ABSURD:
            yield Run(
                job=run.plan.signature,
                project=run.team,
                family=run.plan.family,
                kind=run.plan.gpu_kind,
                gpus=run.plan.gpus,
                measured_s=measured,
                formula_s=run.plan.formula_s,
                age_s=_age_s(run, now_ms),
                environment=run.actual.environment,
                # It is not on record; the same training has the same one.
                network=like.network if run.plan.signature == like.signature else "",
            )


def _points(runs: Iterable[JudgedRun], pool: Pool, now_ms: Millis) -> dict[Named, list[Seen]]:
    """Of data-parallel runs, by training: their own steps, and what was known before of those without a formula."""
    found: dict[Named, list[Seen]] = defaultdict(list)
    for run in runs:
        plan, measured = run.plan, run.actual.step_s
        training = read(plan.training)
        if measured is None or (training is not None and not _is_plain(training.layout)):
            continue
        if training is None and plan.family != UNKNOWN:
            continue
        name = Named(project=run.team, name=plan.signature)
        seen = [] if name in found else read_points(plan.training)
        nodes = -(-plan.gpus // pool.gpus_per_node)
        local = plan.batch / plan.gpus
        seen.append(Seen(gpus=plan.gpus, nodes=nodes, local_batch=local, step_s=measured))
        weight = faded(_age_s(run, now_ms))
        found[name] += [replace(one, weight=weight) for one in seen]
    return found


def _is_plain(layout: Layout) -> bool:
    whole = layout.tensor == layout.pipeline == layout.context == 1
    return whole and layout.recompute == NO_RECOMPUTE and not layout.offload


def _age_s(run: JudgedRun, now_ms: Millis) -> float:
    return max(0, now_ms - run.ended_ms) / 1000
