"""A job's plan beside what came, line by line, in words. What is not known is said to be."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from gpucommons.scheduler import models
from gpucommons.scheduler.advisor.choice.planned_anew import PlannedAnew
from gpucommons.scheduler.advisor.choice.question import Range
from gpucommons.scheduler.advisor.layout import words
from gpucommons.scheduler.core.model.types import Checkpoint, Millis
from gpucommons.scheduler.forecast.windows import SLACK_MS
from gpucommons.scheduler.models.text.plan_words import length_of
from gpucommons.scheduler.money import from_micro
from gpucommons.scheduler.plans import ChosenPlan, Said
from gpucommons.scheduler.service.views.use import NOT_YET
from gpucommons.scheduler.store.plans.base import PlannedRun

_MIB_PER_GIB, _MINUTE_MS, _HOUR_MS = 1024, 60_000, 3_600_000
_MILLI = 1000
_THREE_DIGITS = 1000
#: A wait was said for a submit at once.
AT_ONCE_MS = 10 * _MINUTE_MS
_NOT_KNOWN, _NOT_STARTED, _NEVER_STARTED = "not known", "not started yet", "never started"
_NOT_OVER = "not over yet"
_AS_TOLD = (
    "Its script is told so (GPUCOMMONS_ACCUMULATION, GPUCOMMONS_BATCH_SCALE): one that does not take what"
    " it is told trains with another global batch."
)
_BY_ITSELF = (
    "The way it had does not fit so few GPUs, or does not divide over them: its script has to do it so"
    " itself."
)


def plan_record(run: PlannedRun, *, ended_ms: Millis | None) -> models.PlanRecord:
    """Every number that the plan had. Whether a range was right is said once the job is over."""
    plan, is_over = run.plan, ended_ms is not None
    lines = [
        _speed(run, is_over),
        _memory(run),
        _wait(run),
        *_finish(run, ended_ms),
        _gpu_hours(run, is_over),
        *_money(run, is_over),
    ]
    if run.actual.wait_ms is None:
        # What it did is not unknown: it did nothing yet.
        nothing = _NEVER_STARTED if is_over else _NOT_STARTED
        lines = [one.model_copy(update={"actual": nothing, "actual_ms": None}) for one in lines]
    return models.PlanRecord(
        text=(f"{plan.layout} on {plan.gpus} × {plan.gpu_kind} of {plan.pool}, grade {plan.grade}"),
        grade=plan.grade,
        made_ms=plan.made_ms,
        notes=list(_notes(run)),
        lines=lines,
        is_over=is_over,
    )


def _notes(run: PlannedRun) -> Iterator[str]:
    plan, actual = run.plan, run.actual
    if plan.simulated:
        yield (
            f"The GPUs are simulated: what was said is of real {plan.gpu_kind} cards, what came is not."
        )
    if actual.wait_ms is not None and not run.followed:
        # A share is no whole GPU.
        ran_on = f"{actual.gpus} GPUs" if actual.gpus > 1 else "1 GPU"
        ran_on = ran_on if actual.gpus else "less than a GPU"
        yield (
            f"It ran on {ran_on} of {actual.pool}, not on the {plan.gpus} of {plan.pool} that the"
            " plan is for: its speed does not judge the plan."
        )
    if actual.ran_out:
        yield f"The plan said that it {plan.verdict}, and the GPU's memory was full."


def anew_view(
    found: PlannedAnew, resumed_from: Checkpoint | None, batch: int
) -> models.PlanAnewView:
    """``Resumed at step 5,430 on 2 GPUs; plan changed: …``."""
    plan = found.plan
    gpus, layout = plan.layout.gpus, words(plan.layout)
    many = "1 GPU" if gpus == 1 else f"{gpus} GPUs"
    unit = "step" if resumed_from is None else resumed_from.unit or "step"
    began = "Started" if resumed_from is None else f"Resumed at {unit} {resumed_from.step:,}"
    speed = _speed_words(plan.samples_per_s)
    return models.PlanAnewView(
        step=None if resumed_from is None else resumed_from.step,
        unit=unit,
        gpus=gpus,
        layout=layout,
        batch=batch,
        as_told=found.as_told,
        verdict=plan.verdict,
        speed=speed,
        text=(
            f"{began} on {many}; plan changed: {layout}; global batch unchanged ({batch}): {plan.verdict},"
            f" {speed}. {_told(found)}"
        ),
    )


def _told(found: PlannedAnew) -> str:
    if found.arguments:
        return f"Its script was started with {' '.join(found.arguments)}."
    return _AS_TOLD if found.as_told else _BY_ITSELF


def _speed_words(said: Said | Range) -> str:
    return f"{_number(said.low)}–{_number(said.high)} samples/s"


def _speed(run: PlannedRun, is_over: bool) -> models.JudgedLine:
    said, step_s = run.plan.samples_per_s, run.actual.step_s
    predicted = _speed_words(said)
    if step_s is None:
        why = run.actual.step_note
        return _line("Speed", predicted, f"{_NOT_KNOWN}: {why}" if why else _NOT_KNOWN)
    measured = run.plan.batch / step_s
    judges = is_over and run.followed
    return _line(
        "Speed",
        predicted,
        f"{_number(measured)} samples/s",
        right=said.holds(measured) if judges else None,
    )


def _memory(run: PlannedRun) -> models.JudgedLine:
    plan, used = run.plan, run.actual.memory_mib
    predicted = f"{plan.memory_mib / _MIB_PER_GIB:.1f} GiB" if plan.memory_mib else _NOT_KNOWN
    actual = _NOT_KNOWN if used is None else f"{used / _MIB_PER_GIB:.1f} GiB"
    return _line("Memory per GPU", predicted, actual)


def _wait(run: PlannedRun) -> models.JudgedLine:
    said, waited = run.plan.wait_s, run.actual.wait_ms
    predicted = _NOT_KNOWN if said is None else _length(said)
    if waited is None:
        return _line("Wait", predicted, _NOT_STARTED)
    return _line("Wait", predicted, _minutes(waited), right=wait_right(run))


def wait_right(run: PlannedRun) -> bool | None:
    """Whether it waited as it was said to, also after stops.

    None where that was said of another moment, or where only its first wait is known.
    """
    said, waited = run.plan.wait_s, run.actual.wait_ms
    if said is None or waited is None or not (_was_at_once(run) and run.actual.wait_is_whole):
        return None
    # As of the clocks' own ranges, beside which these are counted.
    return 1000 * said.low - SLACK_MS <= waited <= 1000 * said.high + SLACK_MS


def _was_at_once(run: PlannedRun) -> bool:
    return run.submitted_ms - run.plan.made_ms <= AT_ONCE_MS


def _finish(run: PlannedRun, ended_ms: Millis | None) -> Iterator[models.JudgedLine]:
    """Moments, which every reader's clock shows: none where the plan knew no wait."""
    finish = finish_of(run.plan)
    if finish is None:
        return
    is_whole = _is_whole(run, is_over=ended_ms is not None)
    judges = is_whole and _was_at_once(run) and run.actual.wait_ms is not None
    yield models.JudgedLine(
        what="Finish",
        predicted=" to ".join(dict.fromkeys(map(_in_utc, (finish.low, finish.high)))),
        actual=_NOT_OVER if ended_ms is None else _in_utc(ended_ms),
        predicted_ms=(round(finish.low), round(finish.high)),
        actual_ms=ended_ms,
        right=finish.holds(ended_ms) if judges and ended_ms is not None else None,
    )


def finish_of(plan: ChosenPlan) -> Said | None:
    """When it was said to be done, in UTC milliseconds; None where the wait was not known."""
    if plan.wait_s is None:
        return None
    wait, run = plan.wait_s, plan.run_s
    low, middle, high = wait.low + run.low, wait.middle + run.middle, wait.high + run.high
    return Said(*(plan.made_ms + 1000 * one for one in (low, middle, high)))


def _gpu_hours(run: PlannedRun, is_over: bool) -> models.JudgedLine:
    held = run.actual.held_milli_gpu_ms / _HOUR_MS / _MILLI
    so_far = "" if is_over else " so far"
    said = run.plan.gpu_hours
    return _line(
        "GPU-hours",
        _span(said),
        f"{_number(held)}{so_far}" if is_over or held else NOT_YET,
        right=said.holds(held) if _is_whole(run, is_over) else None,
    )


def _money(run: PlannedRun, is_over: bool) -> Iterator[models.JudgedLine]:
    plan, cost = run.plan, run.actual.cost_micro
    if plan.cost is None and cost is None:
        return
    said = _NOT_KNOWN if plan.cost is None else f"{_money_span(plan.cost)} {plan.currency}"
    if cost is None:
        yield _line("Money", said, f"{_NOT_KNOWN}: not all of it had a price")
        return
    if not is_over and not run.actual.held_milli_gpu_ms:
        yield _line("Money", said, NOT_YET)
        return
    came = from_micro(cost)
    so_far = "" if is_over else " so far"
    judges = plan.cost is not None and _is_whole(run, is_over)
    yield _line(
        "Money",
        said,
        f"{came:,.2f} {plan.currency}{so_far}".replace("  ", " "),
        right=plan.cost.holds(came) if judges and plan.cost is not None else None,
    )


def _is_whole(run: PlannedRun, is_over: bool) -> bool:
    """What was cut short was cheaper than anybody said."""
    return is_over and run.state == "succeeded"


def _line(
    what: str, predicted: str, actual: str, *, right: bool | None = None
) -> models.JudgedLine:
    return models.JudgedLine(what=what, predicted=predicted, actual=actual, right=right)


def _length(said: Said) -> str:
    if said.high <= 0:
        return "none"
    return length_of(models.RangeView(low=said.low, middle=said.middle, high=said.high))


def _minutes(span_ms: int) -> str:
    minutes = round(span_ms / _MINUTE_MS)
    if span_ms < _MINUTE_MS:
        return f"{round(span_ms / 1000)} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"  # noqa: PLR2004 - two hours


def _span(said: Said) -> str:
    return f"{_number(said.low)}–{_number(said.high)}"


def _money_span(said: Said) -> str:
    return f"{said.low:,.2f}–{said.high:,.2f}"


def _number(amount: float) -> str:
    """Three digits, and no more of a small one."""
    return f"{amount:,.0f}" if amount >= _THREE_DIGITS else f"{amount:.3g}"


def _in_utc(at_ms: float) -> str:
    """For readers without a clock of their own; the others go by the milliseconds beside."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
