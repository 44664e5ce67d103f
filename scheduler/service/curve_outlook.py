"""When a job's metric likely reaches a goal, and what its curve says of going on. It stops nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from gpucommons.scheduler import models
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
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models.text.plan_words import length_of
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.jobs import logs
from gpucommons.scheduler.service.lookup import find_job
from gpucommons.scheduler.service.service import Service

_VALIDATION = re.compile(r"^(val|valid|validation|eval|test)[_/.-]")
#: Below such a share it is said that the goal is likely not reached.
_SELDOM = 0.1
_POINTS_OF_A_PACE = 2


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
    authorization.curve_outlook(principal, found)
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
    return said.model_copy(update={"hints": list(_hints(curve, metric, fitted))})


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
    points = [one for one in asked.curve.points if one.attempt == newest]
    points = points[len(points) // 2 :]
    if len(points) < _POINTS_OF_A_PACE:
        return None
    done = _at(asked.unit, points[-1]) - _at(asked.unit, points[0])
    spent_s = (points[-1].at_ms - points[0].at_ms) / 1000
    if done <= 0 or spent_s <= 0:
        return None
    now, pace_s = asked.steps[-1], spent_s / done
    low, middle, high = (
        None if one is None else max(0.0, one - now) * pace_s
        for one in (found.low, found.middle, found.high)
    )
    return models.OpenRangeView(low=low, middle=middle, high=high)


def _hints(curve: models.Curve, metric: str, fitted: Fit | None) -> Iterator[str]:
    unit = _unit(curve)
    if fitted is not None and is_flat(fitted):
        yield (
            f"{metric} is flat: as long again likely changes it by less than a hundredth of what the run"
            " has brought."
        )
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
            yield (
                f"{name} was lowest at {unit} {_count(since)} and has risen since, while {trained} fell:"
                " it learns its training data by heart (overfitting)."
            )


def _series(curve: models.Curve, metric: str) -> dict[float, float]:
    """The metric at each step, which go up; what is no number is left out."""
    unit, found = _unit(curve), {}
    for point in curve.points:
        at, value = _at(unit, point), point.metrics.get(metric, math.nan)
        if is_number(at) and is_number(value):
            found[at] = value
    return dict(sorted(found.items()))


def _unit(curve: models.Curve) -> str:
    return next((point.unit for point in reversed(curve.points) if point.unit), "step")


def _at(unit: str, point: models.CurvePoint) -> float:
    """Parts of epochs are counted in thousandths; the metric has them as they are."""
    return point.metrics.get("epoch", point.step) if unit == "epoch" else float(point.step)


def _count(step: float) -> str:
    return f"{step:,.0f}" if step >= 100 or step == int(step) else f"{step:.3g}"  # noqa: PLR2004
