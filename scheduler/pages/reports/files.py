"""The report of a month as a file."""

from __future__ import annotations

from collections.abc import Callable

from gpucommons.scheduler.client import report_calls
from gpucommons.scheduler.models import Report
from gpucommons.scheduler.models.text.report_parquet import report_parquet
from gpucommons.scheduler.models.text.report_rows import report_csv
from gpucommons.scheduler.pages.base import PageHandler
from gpucommons.scheduler.pages.present.report import month_of
from gpucommons.scheduler.pages.reports.sample import is_asked


class _ReportFile(PageHandler):
    """Sends it; each kind of file says how it is written."""

    ending: str
    content_type: str
    written: Callable[[Report], str | bytes]

    async def get(self) -> None:
        """Send it."""
        month = month_of(self.get_query_argument("month", ""), self.site.now_ms())
        sample = is_asked(self)
        call = report_calls.report(from_ms=month.from_ms, to_ms=month.to_ms, sample=sample)
        content = self.written(await self.ask(call))
        name = f"gpucommons-{'sample-' if sample else ''}{month.key}.{self.ending}"
        self.set_header("Content-Type", self.content_type)
        self.set_header("Content-Disposition", f'attachment; filename="{name}"')
        self.finish(content)


class ReportCsv(_ReportFile):
    """For spreadsheets, with its total."""

    ending = "csv"
    content_type = "text/csv; charset=UTF-8"
    written = staticmethod(report_csv)


class ReportParquet(_ReportFile):
    """For programs, without a total; offered where the library is installed."""

    ending = "parquet"
    content_type = "application/vnd.apache.parquet"
    written = staticmethod(report_parquet)
