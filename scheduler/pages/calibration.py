"""*How right are we?*: every window and plan that was said, counted, for everybody who may log in."""

from __future__ import annotations

from gpucommons.scheduler.client import plan_calls
from gpucommons.scheduler.languages.texts import gettext_noop
from gpucommons.scheduler.pages.base import PageHandler
from gpucommons.scheduler.pages.present import calibration
from gpucommons.scheduler.pages.reports.sample import is_asked

SPANS = (7, 30, 90, 365)
#: The kinds of waits that the service tells of.
CLOCKS = (gettext_noop("Notebook starts"), gettext_noop("Job starts"))


class Calibration(PageHandler):
    """The page."""

    async def get(self) -> None:
        """Show it."""
        await self.whoami()
        days = self.chosen_days(SPANS)
        asked = await self.ask(plan_calls.calibration(days=days, sample=is_asked(self)))
        self.show(
            "calibration.html",
            active="calibration",
            asked=asked,
            days=days,
            spans=SPANS,
            waits=calibration.waits(asked.waits),
            speeds=calibration.speeds(asked.speeds),
            data_ms=asked.now_ms,
        )
