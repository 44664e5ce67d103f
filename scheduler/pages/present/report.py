"""Which month the report is of, and what stands above and below its tables."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.languages.texts import gettext, gettext_noop
from gpucommons.scheduler.models import Report
from gpucommons.scheduler.pages.present import words
from gpucommons.scheduler.pages.present.capacity import Figure
from gpucommons.scheduler.pages.present.words import gpu_hours

_DECEMBER = 12
#: Time is counted from then.
_FIRST_YEAR = 1970
_FIRST_MONTH = "1970-01"


@dataclass(frozen=True, kw_only=True, slots=True)
class Month:
    """A calendar month, UTC."""

    #: ``2026-11``.
    key: str
    from_ms: int
    to_ms: int


def month_of(text: str, now_ms: int) -> Month:
    """Read ``2026-11``; nothing means the present month.

    Raises
    ------
    BadRequest
        Where it is no month, or one that no report can be of.
    """
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    start = _read(text, now) if text else now
    start = start.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    following = (
        start.replace(year=start.year + 1, month=1)
        if start.month == _DECEMBER
        else start.replace(month=start.month + 1)
    )
    return Month(
        key=start.strftime("%Y-%m"),
        from_ms=int(start.timestamp() * 1000),
        to_ms=int(following.timestamp() * 1000),
    )


def _read(text: str, now: datetime) -> datetime:
    try:
        start = datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)
    except ValueError:
        start = None
    if start is None or not _FIRST_YEAR <= start.year <= now.year + 1:
        message = gettext(
            "%(text)s is not a month that can be reported: write it as %(now)s, from %(first)s"
            " to %(last)s.",
            text=repr(text[:20]),
            now=now.strftime("%Y-%m"),
            first=_FIRST_MONTH,
            last=now.replace(year=now.year + 1, month=12).strftime("%Y-%m"),
        )
        raise BadRequest(message)
    return start


#: What each column counts; all but the cost are GPU hours.
COLUMNS = (
    (
        gettext_noop("Held"),
        gettext_noop(
            "Reserved, used or not. What is beside it is part of it, but for what was lent or parked."
        ),
    ),
    (
        gettext_noop("Really used"),
        gettext_noop(
            "Held, times how much the GPU computed meanwhile. Minutes without data count as 0."
        ),
    ),
    (
        gettext_noop("Held idle"),
        gettext_noop("By notebooks, in whole minutes that the culler counts as idle."),
    ),
    (
        gettext_noop("Borrowed"),
        gettext_noop(
            "Beyond the team's quota: others can win it back. Of an elastic job, the workers beyond it."
        ),
    ),
    (
        gettext_noop("Lent"),
        gettext_noop(
            "What borrowers held of GPUs in the team's quota that no work of its own held by right. The"
            " team may borrow from itself: its jobs borrow what is fixed for its notebooks."
        ),
    ),
    (
        gettext_noop("Lost at most"),
        gettext_noop("Since a last save, by work that was stopped and had to repeat it."),
    ),
    (
        gettext_noop("Parked"),
        gettext_noop(
            "What parked notebooks would have held: their kernels waited in memory, and others could have"
            " their GPUs until they had them again. It is no part of what was held, and costs nothing."
        ),
    ),
    (
        gettext_noop("Cost"),
        gettext_noop(
            "Held, at the price that its pool had then. Where pools have no price there is no such column."
        ),
    ),
    (
        gettext_noop("Project"),
        gettext_noop("What a job's label project says: gpucommons submit --label project=thesis."),
    ),
)


def figures(report: Report) -> tuple[Figure, ...]:
    """The sums over all that the reader sees, as parts of all GPU hours that there were."""
    held = sum(row.held_milli_gpu_h for row in report.rows)
    there = report.capacity_milli_gpu_h if report.all_teams else None
    used = [row.used_milli_gpu_h for row in report.rows if row.used_milli_gpu_h is not None]
    parts = [
        ("held", gettext("GPU hours held"), held if report.rows else None),
        (
            "used",
            gettext("GPU hours really used, of all hours")
            if there
            else gettext("GPU hours really used"),
            sum(used) if used else None,
        ),
        (
            "idle",
            gettext("GPU hours held idle"),
            sum(row.idle_milli_gpu_h for row in report.rows),
        ),
        (
            "lost",
            gettext("GPU hours lost at most"),
            sum(row.lost_milli_gpu_h for row in report.rows),
        ),
        ("free", gettext("GPU hours free"), None if there is None else max(0, there - held)),
    ]
    shown = [
        Figure(key=key, value=_amount(amount), of=_part(amount, there), label=label)
        for key, label, amount in parts
        if amount is not None or key != "free"
    ]
    if there:
        shown.insert(
            0, Figure(key="there", value=_amount(there), of="", label=gettext("GPU hours in all"))
        )
    return tuple(shown)


def lent_sentence(report: Report) -> str:
    """What made up all that was borrowed; "" where it is not known, or nothing was."""
    borrowed = sum(row.borrowed_milli_gpu_h for row in report.rows)
    if not report.all_teams or not borrowed or report.lent_from_ms is None:
        return ""
    lent = sum(row.lent_milli_gpu_h for row in report.lent)
    others, unknown = report.lent_by_none_milli_gpu_h, report.lent_unknown_milli_gpu_h
    if not others and not unknown:
        return gettext(
            "All %(borrowed)s borrowed GPU hours were lent by teams.", borrowed=gpu_hours(borrowed)
        )
    said = {
        "borrowed": gpu_hours(borrowed),
        "lent": gpu_hours(lent),
        "others": gpu_hours(others),
    }
    if unknown:
        return gettext(
            "Of %(borrowed)s borrowed GPU hours teams lent %(lent)s, and %(others)s came from GPUs"
            " in no team's quota, who lent %(unknown)s is not known.",
            unknown=gpu_hours(unknown),
            **said,
        )
    return gettext(
        "Of %(borrowed)s borrowed GPU hours teams lent %(lent)s, and %(others)s came from GPUs in"
        " no team's quota.",
        **said,
    )


def _amount(milli_gpu_h: int | None) -> str:
    """By the rule of sentences: what is written in full stands in the tables, whose rows add up."""
    return "–" if milli_gpu_h is None else words.hours(milli_gpu_h / WHOLE_MILLI_GPU)


def _part(milli_gpu_h: int | None, of: int | None) -> str:
    return f"{round(100 * milli_gpu_h / of)} %" if of and milli_gpu_h is not None else ""
