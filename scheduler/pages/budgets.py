"""Budgets on the pages: who is told that one is nearly used up, and where an admin sets one."""

from __future__ import annotations

from pydantic import ValidationError

from gpucommons.scheduler import models
from gpucommons.scheduler.client import plan_calls
from gpucommons.scheduler.errors import BadRequest, Forbidden
from gpucommons.scheduler.languages.texts import gettext
from gpucommons.scheduler.models.text.field_errors import first_mistake
from gpucommons.scheduler.pages.base import PageHandler
from gpucommons.scheduler.pages.settings import WRITES_OFF

_SPENT = ("near", "full")


async def of_led_teams(page: PageHandler, me: models.WhoAmI) -> list[models.BudgetView]:
    """Of the teams whose lead reads this, what is nearly or wholly used up; of all for admins."""
    if not (me.admin or me.leads):
        return []
    found = (await page.ask(plan_calls.budgets())).budgets
    return [one for one in found if one.state in _SPENT and (me.admin or one.team in me.leads)]


class SaveBudget(PageHandler):
    """The form below the quotas."""

    async def post(self) -> None:
        """Save it and go back to the teams."""
        me = await self.whoami()
        if not me.admin:
            raise Forbidden(gettext("Only admins set budgets: ask yours."))
        if not self.site.settings.admin_writes:
            raise Forbidden(gettext(WRITES_OFF))
        team = self.get_body_argument("team", "")
        await self.ask(plan_calls.set_budget(team, self._budget()))
        self.redirect(f"{self.site.settings.prefix}admin/teams#budgets", status=303)

    def _budget(self) -> models.BudgetModel | None:
        amount = self.get_body_argument("amount", "").strip()
        if not amount:
            return None
        unit = "money" if self.get_body_argument("unit", "") == "money" else "gpu_hours"
        fields = {unit: _number(amount), "at_full": self.get_body_argument("at_full", "warn")}
        try:
            return models.BudgetModel.model_validate(fields)
        except ValidationError as error:
            raise BadRequest(first_mistake(error, of="The budget")) from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        message = gettext(
            "%(text)s is no amount: write it as 1200 or 1200.50, or leave it empty for no budget.",
            text=repr(text[:20]),
        )
        raise BadRequest(message) from None
