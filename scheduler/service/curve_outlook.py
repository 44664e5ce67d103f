"""When a job's metric likely reaches a goal, and what its curve says of going on. It stops nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gpucommons.scheduler import models
from gpucommons.scheduler.advisor.choice.advise import spread_after
from gpucommons.scheduler.advisor.choice.question import Range
from gpucommons.scheduler.advisor.learning_curve import (
    FURTHEST,
    LEAST_POINTS,
    Fit,
    Reach,
    fit,
    is_flat,
    is_number,
    reach,
    reached_at,
    rises_since,
)
from gpucommons.scheduler.advisor.scaling import Seen, scaling_of
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Workload
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models.text.plan_words import length_of
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.advice.plan_outcomes import gpus_of
from gpucommons.scheduler.service.advice.waiting_together import run_by_gpus
from gpucommons.scheduler.service.jobs import logs
from gpucommons.scheduler.service.lookup import find_job
from gpucommons.scheduler.service.service import Service

_VALIDATION = re.compile(r"^(val|valid|validation|eval|test)[_/.-]")
#: Below such a share it is said that the goal is likely not reached.
_SELDOM = 0.1
_POINTS_OF_A_PACE = 2
_DOUBLED = (1, 2, 4, 8, 16)


def curve_outlook(
    service: Service, principal: Principal, ref: str, *, metric: str, goal: float
) -> models.CurveOutlook:
    """Read on from the curve so far.

    Raises
    ------
    BadRequest
        When the curve has others, and not this one.
    """
    found = find_job(service, principal, ref)
    authorization.jobs.curve_outlook(principal, found)
    curve = logs.curve(service, principal, ref)
    series = _series(curve, metric)
    steps, values = list(series), list(series.values())
    names = sorted({name for point in curve.points for name in point.metrics})
    if not names:
        text = f"No curve of {found.spec.name} is known yet."
        return models.CurveOutlook(metric=metric, goal=goal, unit=_unit(curve), text=text)
    if metric in names and not steps:
        text = f"{metric} was no number at any {_unit(curve)} so far."
        return models.CurveOutlook(metric=metric, goal=goal, unit=_unit(curve), text=text)
    if not steps:
        message = f"{found.spec.name} tells no {metric!r}; its curve has: {', '.join(names)}."
        raise BadRequest(message)
    fitted = fit(steps, values)
    said = _said(_Asked(curve, metric, goal, steps, values), fitted, is_over=is_final(found))
    return said.model_copy(
        update={
            "is_flat": fitted is not None and is_flat(fitted),
            "parted": (parted := list(_parted(curve))),
            "hints": list(_hints(_unit(curve), metric, fitted, parted)),
            "sizes": sizes_of(service, found, curve, said.seconds),
            "simulated": is_simulated(service.loop.cluster, found),
        }
    )


class _Asked:
    """One metric of one curve, and the goal."""

    def __init__(
        self,
        curve: models.Curve,
        metric: str,
        goal: float,
        steps: Sequence[float],
        values: Sequence[float],
    ) -> None:
        self.curve, self.metric, self.goal = curve, metric, goal
        self.steps, self.values = steps, values
        self.unit = _unit(curve)


def _said(asked: _Asked, fitted: Fit | None, *, is_over: bool) -> models.CurveOutlook:
    view = models.CurveOutlook(metric=asked.metric, goal=asked.goal, unit=asked.unit, text="")
    name, goal = asked.metric, f"{asked.goal:.6g}"
    there = reached_at(asked.steps, asked.values, asked.goal)
    if there is not None:
        text = f"{name} came to {goal} at {asked.unit} {_count(there)}."
        return view.model_copy(update={"reached_at": there, "text": text})
    if fitted is None:
        text = (
            f"Can't say yet when {name} comes to {goal}: that takes at least {LEAST_POINTS} points after"
            " the first tenth of the run."
        )
        return view.model_copy(update={"text": text})
    found = reach(fitted, asked.goal)
    seconds = _seconds(asked, found)
    return view.model_copy(
        update={
            "at": fitted.last,
            "value": fitted.now,
            "steps": models.OpenRangeView(low=found.low, middle=found.middle, high=found.high),
            "seconds": seconds,
            "share_percent": round(100 * found.share),
            "text": _sentence(asked, fitted, found, seconds, is_over=is_over),
        }
    )


def _sentence(
    asked: _Asked,
    fitted: Fit,
    found: Reach,
    seconds: models.OpenRangeView | None,
    *,
    is_over: bool,
) -> str:
    name, goal, unit = asked.metric, f"{asked.goal:.6g}", asked.unit
    now = f"it is about {fitted.now:.4g} at {unit} {_count(fitted.last)}"
    if found.low is None or found.share < _SELDOM:
        return f"{name} likely does not come to {goal} within {FURTHEST:.0f} times the run so far; {now}."
    first = _count(found.low)
    if found.high is None:
        cases = round(10 * found.share)
        return (
            f"{name} comes to {goal} at {unit} {first} or later, in about {cases} of ten cases within"
            f" {FURTHEST:.0f} times the run so far; {now}."
        )
    last = _count(found.high)
    span = first if first == last else f"{first}–{last}"
    if seconds is None or seconds.high is None:
        return f"{name} likely comes to {goal} at {unit} {span}; {now}."
    left = models.RangeView(low=seconds.low or 0.0, middle=seconds.middle or 0.0, high=seconds.high)
    more = "more would that take" if is_over else "more at its pace"
    return f"{name} likely comes to {goal} at {unit} {span}, {length_of(left)} {more}; {now}."


def _seconds(asked: _Asked, found: Reach) -> models.OpenRangeView | None:
    """By the second half of the newest attempt: its start loads and compiles."""
    newest = asked.curve.points[-1].attempt
    pace_s = pace_of(asked.curve, newest)
    if pace_s is None:
        return None
    now = asked.steps[-1]
    low, middle, high = (
        None if one is None else max(0.0, one - now) * pace_s
        for one in (found.low, found.middle, found.high)
    )
    return models.OpenRangeView(low=low, middle=middle, high=high)


def sizes_of(
    service: Service,
    workload: Workload,
    curve: models.Curve,
    seconds: models.OpenRangeView | None,
) -> list[models.OutlookSize]:
    """The same rest of the run with 1, 2, 4 … GPUs; empty where nothing is known of other numbers.

    By the formula of its plan where it took one, else by its own attempts, to twice the most GPUs that it
    had. Either is held to the pace that it has now.
    """
    attempt = workload.attempts[-1] if workload.attempts else None
    now = 0 if attempt is None else gpus_of(attempt)
    if seconds is None or seconds.low is None or now == 0:
        return []
    basis, times = "formula", _by_formula(service, workload, now)
    if not times:
        basis, times = "runs", _by_runs(service.loop.cluster, workload, curve, now)
    return [
        models.OutlookSize(gpus=now, seconds=seconds, basis="measured")
        if gpus == now
        else models.OutlookSize(gpus=gpus, seconds=_times(seconds, factor), basis=basis)
        for gpus, factor in sorted({**times, now: Range(1, 1, 1)}.items())
        if times and (gpus == now or gpus.bit_count() == 1)
    ]


def _by_formula(service: Service, workload: Workload, now: int) -> Mapping[int, Range]:
    ranges = run_by_gpus(service, workload)
    if now not in ranges:
        return {}
    here = ranges[now].middle
    return {gpus: one.times(1 / here) for gpus, one in ranges.items()}


def _by_runs(
    cluster: Cluster, workload: Workload, curve: models.Curve, now: int
) -> Mapping[int, Range]:
    """Its attempts on real GPUs, each with its pace, as points of how it scales."""
    if is_simulated(cluster, workload):
        return {}
    seen = [
        Seen(
            gpus=gpus_of(one),
            nodes=len({worker.node_id for worker in one.placements}),
            local_batch=1 / gpus_of(one),
            step_s=pace_s,
        )
        for one in workload.attempts
        if gpus_of(one) > 0 and (pace_s := pace_of(curve, one.number)) is not None
    ]
    if not any(one.gpus == now for one in seen):
        return {}
    scaling, most = scaling_of(seen), _largest_node(cluster, workload)
    sizes = [gpus for gpus in _DOUBLED if gpus <= most and not scaling.far(gpus)]
    at = [np.array([float(one) for one in (*sizes, now)]), np.ones(len(sizes) + 1)]
    times = scaling.step_s(at[0], at[1], 1 / at[0])
    factors = (float(one / times[-1]) for one in times[:-1])
    spread = math.exp(spread_after(len(seen)))
    return {
        gpus: Range(one / spread, one, one * spread)
        for gpus, one in zip(sizes, factors, strict=True)
    }


def is_simulated(cluster: Cluster, workload: Workload) -> bool:
    """No hardware stands behind the GPUs that its newest attempt had."""
    placements = workload.attempts[-1].placements if workload.attempts else ()
    return any(
        device.simulated
        for one in placements
        if one.node_id in cluster.nodes
        for device in cluster.nodes[one.node_id].devices
        if device.device_id in one.device_ids
    )


def _largest_node(cluster: Cluster, workload: Workload) -> int:
    """How links between nodes behave nobody knows here: other numbers of GPUs stay on one node."""
    pools = {
        cluster.nodes[one.node_id].pool
        for one in workload.attempts[-1].placements
        if one.node_id in cluster.nodes
    }
    return max(
        (len(node.devices) for node in cluster.nodes.values() if node.pool in pools), default=0
    )


def _times(seconds: models.OpenRangeView, factor: Range) -> models.OpenRangeView:
    """Both ends at once, so rather too wide."""
    return models.OpenRangeView(
        low=None if seconds.low is None else seconds.low * factor.low,
        middle=None if seconds.middle is None else seconds.middle * factor.middle,
        high=None if seconds.high is None else seconds.high * factor.high,
    )


def pace_of(curve: models.Curve, attempt: int) -> float | None:
    """Seconds from one step to the next in the second half of an attempt; None where too few were told."""
    points = [one for one in curve.points if one.attempt == attempt]
    points = points[len(points) // 2 :]
    if len(points) < _POINTS_OF_A_PACE:
        return None
    unit = _unit(curve)
    done = _at(unit, points[-1]) - _at(unit, points[0])
    spent_s = (points[-1].at_ms - points[0].at_ms) / 1000
    return spent_s / done if done > 0 and spent_s > 0 else None


def _hints(
    unit: str, metric: str, fitted: Fit | None, parted: Sequence[models.PartedView]
) -> Iterator[str]:
    if fitted is not None and is_flat(fitted):
        yield (
            f"{metric} is flat: as long again likely changes it by less than a hundredth of what the run"
            " has brought."
        )
    for one in parted:
        yield (
            f"{one.metric} was lowest at {unit} {_count(one.since)} and has risen since, while"
            f" {one.trained} fell: it learns its training data by heart (overfitting)."
        )


def _parted(curve: models.Curve) -> Iterator[models.PartedView]:
    names = sorted({name for point in curve.points for name in point.metrics})
    for name in names:
        base = _VALIDATION.sub("", name)
        trained = next(
            (one for one in (base, f"train_{base}", f"train/{base}") if one in names), ""
        )
        if "loss" not in base or base == name or not trained:
            continue
        held, fell = _series(curve, name), _series(curve, trained)
        both = sorted(held.keys() & fell.keys())
        since = rises_since(both, [fell[one] for one in both], [held[one] for one in both])
        if since is not None:
            yield models.PartedView(metric=name, trained=trained, since=since)


def _series(curve: models.Curve, metric: str) -> dict[float, float]:
    """The metric at each step, which go up; what is no number is left out."""
    unit, found = _unit(curve), {}
    for point in curve.points:
        at, value = _at(unit, point), point.metrics.get(metric, math.nan)
        if is_number(at) and is_number(value):
            found[at] = value
    return dict(sorted(found.items()))


def _unit(curve: models.Curve) -> str:
    """As the points say; where each stands at its own epoch, a script reports epochs as its steps."""
    told = next((point.unit for point in reversed(curve.points) if point.unit), "")
    newest = curve.points[-1] if curve.points else None
    is_epoch = newest is not None and newest.metrics.get("epoch") == newest.step
    return told or ("epoch" if is_epoch else "step")


def _at(unit: str, point: models.CurvePoint) -> float:
    """Parts of epochs are counted in thousandths; the metric has them as they are."""
    return point.metrics.get("epoch", point.step) if unit == "epoch" else float(point.step)


def _count(step: float) -> str:
    return f"{step:,.0f}" if step >= 100 or step == int(step) else f"{step:.3g}"  # noqa: PLR2004
