"""Last week under other quotas, as rows of a table: each cell says before → after."""

from __future__ import annotations

from gpucommons.scheduler.languages.texts import gettext, gettext_noop
from gpucommons.scheduler.models import ReplayFigures, ReplayView
from gpucommons.scheduler.models.text.number_words import decimal

HEADER = (
    gettext_noop("Median wait"),
    gettext_noop("Worst in ten"),
    gettext_noop("Free GPU-h"),
    gettext_noop("Evictions"),
    gettext_noop("Lost GPU-h, at most"),
)


def replay_rows(answer: ReplayView) -> list[list[str]]:
    """The header, a row for each team, and one for all."""
    names = sorted(answer.before.teams.keys() | answer.after.teams.keys())
    rows = [["", *map(gettext, HEADER)]]
    for name in names:
        before, after = (side.teams.get(name) for side in (answer.before, answer.after))
        if before is not None and after is not None:
            rows.append([name, *_cells(before, after, "")])
    free = _both(*(_hours(side.idle_gpu_h) for side in (answer.before, answer.after)))
    rows.append([gettext("All"), *_cells(answer.before.total, answer.after.total, free)])
    return rows


def _cells(before: ReplayFigures, after: ReplayFigures, free: str) -> list[str]:
    return [
        _both(*(_wait(one.median_wait_s, one.median_is_open) for one in (before, after))),
        _both(*(_wait(one.worst_tenth_wait_s, one.worst_tenth_is_open) for one in (before, after))),
        free,
        _both(str(before.evictions), str(after.evictions)),
        _both(_hours(before.lost_gpu_h), _hours(after.lost_gpu_h)),
    ]


def _both(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def _wait(seconds: int | None, is_open: bool) -> str:
    """Who never started waited longer than was looked."""
    if seconds is None or not is_open:
        return waited(seconds)
    return gettext("over %(span)s", span=waited(seconds))


def _hours(gpu_h: float) -> str:
    """To the thousandth, as the report and receipts have them: a stop of seconds is not nothing."""
    return decimal(f"{gpu_h:.3f}")


def waited(seconds: int | None) -> str:
    """Write a wait for people; a dash where nobody waited for anything."""
    if seconds is None:
        return "–"
    if seconds < 120:  # noqa: PLR2004 - below two minutes, seconds say more
        return f"{seconds} s"
    if seconds < 2 * 3600:
        return f"{round(seconds / 60)} min"
    return f"{decimal(f'{seconds / 3600:.1f}')} h"
