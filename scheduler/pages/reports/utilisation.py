"""Utilisation: allocated beside used over time, for admins, and for leads of their teams."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.client import report_calls
from gpucommons.scheduler.languages.texts import gettext, gettext_noop
from gpucommons.scheduler.models.reports import UsePoint, Utilisation
from gpucommons.scheduler.models.text.change_words import change_words
from gpucommons.scheduler.models.text.report_rows import SAMPLE_NOTE, in_a_spreadsheet
from gpucommons.scheduler.pages.base import PageHandler
from gpucommons.scheduler.pages.present.words import iso
from gpucommons.scheduler.pages.reports import drawing, sample

#: What can be chosen, in days.
SPANS = (2, 14, 90, 365)
_STEPS = {
    900_000: gettext_noop("quarter of an hour"),
    3_600_000: gettext_noop("hour"),
    86_400_000: gettext_noop("day"),
    604_800_000: gettext_noop("week"),
}
#: Of a newer scheduler.
_OTHER_STEP = gettext_noop("step")
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A line of the table beside the drawing."""

    when: str
    allocated: str
    used: str
    there: str


async def asked(page: PageHandler) -> tuple[Utilisation, int]:
    """What the reader chose, and of how many days."""
    days = page.chosen_days(SPANS)
    pool = page.get_query_argument("pool", "") or None
    team = page.get_query_argument("team", "") or None
    call = report_calls.utilisation(days=days, pool=pool, team=team, sample=sample.is_asked(page))
    found = await page.ask(call)
    return found, days


async def shown(page: PageHandler) -> dict[str, Any]:
    """What the tab's template needs."""
    found, days = await asked(page)
    whole, *others = found.lines
    measure = gettext("quota") if found.of_quotas else gettext("GPUs")
    chosen = {name: page.get_query_argument(name, "") for name in ("pool", "team")}
    return {
        "asked": found,
        "chosen": chosen | {"days": days},
        "spans": SPANS,
        "step": gettext(_STEPS.get(found.step_ms, _OTHER_STEP)),
        "measure": measure,
        "means": _means(whole.points, measure),
        "drawn": json.dumps(_drawn(found, whole.points)),
        "is_known": any(one.allocated_milli_gpu is not None for one in whole.points),
        "rows": tuple(_row(one, found.step_ms) for one in reversed(whole.points)),
        "marks": tuple(
            (letter, mark.at_ms, change_words(mark.text))
            for letter, mark in zip(_LETTERS, found.marks, strict=False)
        ),
        "cards": tuple(
            drawing.card(
                f"{_kind(one.of)} {one.name}",
                one.points,
                gettext("quota") if one.of == "team" or found.of_quotas else gettext("in the pool"),
                one.there_now_milli_gpu,
            )
            for one in others
        ),
        "weeks": drawing.weeks(found.weeks),
    }


def _kind(of: str) -> str:
    return {"team": gettext("team"), "pool": gettext("pool")}.get(of, of)


def _means(points: Sequence[UsePoint], measure: str) -> tuple[tuple[str, str], ...]:
    """Means of what is known, as parts of what was there."""
    allocated, used, there = (
        drawing.mean(points, of) for of in (drawing.allocated, drawing.used, drawing.there)
    )

    def part(amount: int | None) -> str:
        return "–" if amount is None or not there else f"{100 * amount / there:.0f} %"

    return (
        (
            part(allocated),
            gettext(
                "allocated, of %(gpus)s %(measure)s", gpus=drawing.gpus(there), measure=measure
            ),
        ),
        (part(used), gettext("used")),
        (drawing.gpus(allocated), gettext("GPUs allocated")),
        (drawing.gpus(used), gettext("GPUs used")),
    )


def _drawn(found: Utilisation, points: Sequence[UsePoint]) -> dict[str, Any]:
    """For the drawing library: seconds and GPUs."""
    return {
        "step": found.step_ms // 1000,
        "at": [one.from_ms // 1000 for one in points],
        "allocated": [_amount(one.allocated_milli_gpu) for one in points],
        "used": [_amount(one.used_milli_gpu) for one in points],
        "there": [_amount(one.there_milli_gpu) for one in points],
        # What was changed in the last minute stands at the end of what is drawn.
        "marks": [min(one.at_ms, found.to_ms) // 1000 for one in found.marks],
    }


def _amount(milli_gpu: int | None) -> float | None:
    return None if milli_gpu is None else milli_gpu / WHOLE_MILLI_GPU


def _row(point: UsePoint, step_ms: int) -> Row:
    return Row(
        when=drawing.moment(point.from_ms, step_ms),
        allocated=drawing.gpus(point.allocated_milli_gpu),
        used=drawing.gpus(point.used_milli_gpu),
        there=drawing.gpus(point.there_milli_gpu),
    )


class UtilisationCsv(PageHandler):
    """All lines of the page as a file."""

    async def get(self) -> None:
        """Send it."""
        found, days = await asked(self)
        self.set_header("Content-Type", "text/csv; charset=UTF-8")
        mark = "sample-" if found.is_sample else ""
        name = f"gpucommons-{mark}utilisation-{days}-days.csv"
        self.set_header("Content-Disposition", f'attachment; filename="{name}"')
        self.finish(as_csv(found))


def as_csv(found: Utilisation) -> str:
    """A row for each point; what is not known is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(("From, UTC", "Of", "Name", "Allocated GPUs", "Used GPUs", "There"))
    for line in found.lines:
        for one in line.points:
            amounts = (one.allocated_milli_gpu, one.used_milli_gpu, one.there_milli_gpu)
            known = ("" if a is None else f"{a / WHOLE_MILLI_GPU:.3f}" for a in amounts)
            writer.writerow(map(in_a_spreadsheet, (iso(one.from_ms), line.of, line.name, *known)))
    if found.is_sample:
        writer.writerow((SAMPLE_NOTE,))
    return out.getvalue()
