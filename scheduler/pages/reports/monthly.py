"""The report of a month, on the page of GPU admins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpucommons.scheduler import models
from gpucommons.scheduler.client import report_calls
from gpucommons.scheduler.languages.texts import gettext, gettext_noop
from gpucommons.scheduler.models.text.report_parquet import can_write_parquet
from gpucommons.scheduler.models.text.report_rows import (
    project_table,
    team_table,
    user_table,
)
from gpucommons.scheduler.pages.base import PageHandler
from gpucommons.scheduler.pages.budgets import of_led_teams
from gpucommons.scheduler.pages.present import report
from gpucommons.scheduler.pages.reports import drawing, sample


async def shown(
    page: PageHandler, me: models.WhoAmI, pools: Sequence[models.PoolView], *, now_ms: int
) -> dict[str, Any]:
    """What the tab's template needs."""
    month = report.month_of(page.get_query_argument("month", ""), now_ms)
    call = report_calls.report(
        from_ms=month.from_ms, to_ms=month.to_ms, drawn=True, sample=sample.is_asked(page)
    )
    asked = await page.ask(call)
    buys = me.admin and not asked.is_sample
    return {
        "asked": asked,
        "month": month.key,
        "has_parquet": can_write_parquet(),
        "days": drawing.days(asked.days),
        "weeks": drawing.weeks(asked.weeks),
        "figures": report.figures(asked),
        "tables": _tables(asked),
        "sentence": report.lent_sentence(asked),
        "meanings": report.COLUMNS,
        "budgets": await of_led_teams(page, me),
        "buys_in": [one.name for one in pools if one.total_milli_gpu] if buys else [],
    }


def _tables(asked: models.Report) -> tuple[tuple[str, object], ...]:
    unknown, unlabelled = gettext("no data"), gettext("no label")
    return (
        (gettext_noop("By team"), team_table(asked, unknown=unknown)),
        (gettext_noop("By user"), user_table(asked, unknown=unknown)),
        (
            gettext_noop("By project"),
            project_table(asked, unknown=unknown, unlabelled=unlabelled),
        ),
    )
