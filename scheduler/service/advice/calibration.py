"""How often ranges were right: windows of waits by kind and pool, plans by grade. Pure.

A range should hold eight times of ten. Below so many cases no share is shown: chance would decide it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import exp, log, sqrt
from statistics import median

from gpucommons.scheduler import models
from gpucommons.scheduler.advisor.history import Grade
from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.forecast.windows import (
    SLACK_MS,
    in_time,
    is_backwards,
    is_over,
    is_right,
)
from gpucommons.scheduler.models.text.plan_words import GRADES
from gpucommons.scheduler.money import from_micro
from gpucommons.scheduler.service.advice.plan_beside_outcome import wait_right
from gpucommons.scheduler.store.estimates import Estimate
from gpucommons.scheduler.store.plans.base import JudgedRun

_FEWEST = 30
#: Of a normal distribution: 95 % lie within so many standard deviations.
_SURE = 1.96
_DRAWN_WAITS, _DRAWN_SPEEDS = 20, 60
_KINDS = (("notebook", "Notebook starts"), ("job", "Job starts"))


def calibration_view(
    estimates: Sequence[Estimate], runs: Sequence[JudgedRun], *, from_ms: Millis, now_ms: Millis
) -> models.CalibrationView:
    """Rows, drawings, and what is not among them."""
    over = [
        one for one in estimates if not one.left and is_over(one, now_ms) and not is_backwards(one)
    ]
    real = [run for run in runs if not run.plan.simulated]
    speeds = [run for run in real if run.followed and run.actual.step_s is not None]
    return models.CalibrationView(
        from_ms=from_ms,
        now_ms=now_ms,
        clocks=_clocks(over, now_ms),
        grades=[_grade(grade, real) for grade in Grade],
        waits=[_wait_drawn(one, now_ms) for one in _said(over)[-_DRAWN_WAITS:]],
        speeds=[_speed_drawn(run) for run in speeds[-_DRAWN_SPEEDS:]],
        notes=_notes(estimates, runs, now_ms),
    )


def _said(over: Iterable[Estimate]) -> list[Estimate]:
    return sorted((one for one in over if not one.withheld), key=lambda one: one.made_ms)


def _clocks(over: Sequence[Estimate], now_ms: Millis) -> list[models.ClockRow]:
    rows = []
    for kind, words in _KINDS:
        of_kind = [one for one in over if one.wait_class.split()[0] == kind]
        pools = sorted({one.wait_class.split()[1] for one in of_kind})
        rows.append(_clock(words, "", of_kind, now_ms))
        if len(pools) > 1:
            for pool in pools:
                there = [one for one in of_kind if one.wait_class.split()[1] == pool]
                rows.append(_clock(words, pool, there, now_ms))
    return rows


def _clock(what: str, pool: str, over: Sequence[Estimate], now_ms: Millis) -> models.ClockRow:
    said = _said(over)
    right = sum(is_right(one, now_ms) for one in said)
    later = sum(not in_time(one, now_ms) for one in said)
    return models.ClockRow(
        what=what,
        pool=pool,
        share=share(right, len(said)),
        later=later,
        earlier=len(said) - right - later,
        withheld=len(over) - len(said),
    )


def share(right: int, of: int) -> models.ShareView:
    """A share with Wilson's interval (1927), which holds for few cases and near the ends."""
    if of < _FEWEST:
        text = f"{right} of {of}: too few to say" if of else "none yet"
        return models.ShareView(right=right, of=of, text=text)
    part = right / of
    width = 1 + _SURE**2 / of
    middle = (part + _SURE**2 / (2 * of)) / width
    half = _SURE * sqrt(part * (1 - part) / of + _SURE**2 / (4 * of**2)) / width
    return models.ShareView(
        right=right,
        of=of,
        percent=round(100 * part),
        low_percent=round(100 * (middle - half)),
        high_percent=round(100 * (middle + half)),
        text=f"{right} of {of} ({round(100 * part)} %)",
    )


def _grade(grade: Grade, runs: Sequence[JudgedRun]) -> models.GradeRow:
    of_grade = [run for run in runs if run.plan.grade == grade]
    followed = [run for run in of_grade if run.followed]
    measured = [run for run in followed if run.actual.step_s is not None]
    waits = [right for run in of_grade if (right := wait_right(run)) is not None]
    ran = [run for run in followed if run.plan.verdict in ("fits", "tight")]
    out = sum(run.actual.ran_out for run in ran)
    return models.GradeRow(
        grade=grade.value,
        meaning=GRADES[grade.value],
        runs=len(of_grade),
        speed=share(sum(_speed_right(run) for run in measured), len(measured)),
        wait=share(sum(waits), len(waits)),
        speed_off_percent=_typical([_speed_off(run) for run in measured]),
        money_off_percent=_typical(
            [off for run in followed if (off := _money_off(run)) is not None]
        ),
        fitted=len(ran) - out,
        ran_out=out,
    )


def _speed_right(run: JudgedRun) -> bool:
    return run.plan.samples_per_s.holds(_measured(run))


def _measured(run: JudgedRun) -> float:
    return run.plan.batch / (run.actual.step_s or 1.0)


def _speed_off(run: JudgedRun) -> float:
    return abs(log(_measured(run) / run.plan.samples_per_s.middle))


def _money_off(run: JudgedRun) -> float | None:
    said, came = run.plan.cost, run.actual.cost_micro
    if run.state != "succeeded" or said is None or not came or said.middle <= 0:
        return None
    return abs(log(from_micro(came) / said.middle))


def _typical(off: Sequence[float]) -> int | None:
    """Half are off by less."""
    return round(100 * (exp(median(off)) - 1)) if len(off) >= _FEWEST else None


def _wait_drawn(one: Estimate, now_ms: Millis) -> models.WaitDrawn:
    took_ms = (now_ms if one.started_ms is None else one.started_ms) - one.made_ms
    return models.WaitDrawn(
        from_ms=one.window.from_ms,
        to_ms=max(one.window.to_ms, SLACK_MS),
        took_ms=took_ms,
        started=one.started_ms is not None,
        right=is_right(one, now_ms),
    )


def _speed_drawn(run: JudgedRun) -> models.SpeedDrawn:
    said = run.plan.samples_per_s
    return models.SpeedDrawn(
        grade=run.plan.grade,
        low=said.low,
        middle=said.middle,
        high=said.high,
        measured=_measured(run),
        right=_speed_right(run),
    )


def _notes(estimates: Sequence[Estimate], runs: Sequence[JudgedRun], now_ms: Millis) -> list[str]:
    return [text for number, text in (*_of_runs(runs), *_of_ranges(estimates, now_ms)) if number]


def _of_runs(runs: Sequence[JudgedRun]) -> Iterator[tuple[int, str]]:
    simulated = sum(run.plan.simulated for run in runs)
    first_only = sum(
        run.actual.wait_ms is not None and not run.actual.wait_is_whole and not run.plan.simulated
        for run in runs
    )
    elsewhere = sum(not run.followed and not run.plan.simulated for run in runs)
    yield (
        simulated,
        f"{_counted(simulated, 'run')} on simulated GPUs left out: their speed is no card's.",
    )
    yield (
        elsewhere,
        f"{_counted(elsewhere, 'run')} ran on other GPUs than planned, or never: they judge no"
        " speed.",
    )
    yield (
        first_only,
        f"{_counted(first_only, 'run')} of an earlier release left out of the waits: what they"
        " waited after stops was not kept.",
    )


def _of_ranges(estimates: Sequence[Estimate], now_ms: Millis) -> Iterator[tuple[int, str]]:
    ranges = [one for one in estimates if one.foreseen]
    left = sum(one.left for one in ranges)
    open_yet = [one for one in ranges if not one.left and not is_over(one, now_ms)]
    started = sum(one.started_ms is not None for one in open_yet)
    backwards = sum(is_backwards(one) for one in ranges if not one.left)
    yield (
        len(open_yet),
        f"{_counted(len(open_yet), 'range')} whose end has not passed yet, of which"
        f" {started} started: counted then, as counting early starts first would flatter.",
    )
    yield (
        backwards,
        f"{_counted(backwards, 'range')} left out that began before it was said: a clock was set"
        " back.",
    )
    yield (
        left,
        f"{_counted(left, 'range')} left out whose wait ended without a start"
        " (cancelled, paused): nothing to compare.",
    )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
