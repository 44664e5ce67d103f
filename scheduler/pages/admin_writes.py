"""What admins change or try in the browser: quotas and reclaims, as JSON for the page's scripts; more GPUs."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from pydantic import BaseModel, ConfigDict, Field

from gpucommons.scheduler.client import calls
from gpucommons.scheduler.errors import BadRequest, Forbidden, SchedulerError
from gpucommons.scheduler.languages.sentences import sentence
from gpucommons.scheduler.languages.texts import gettext
from gpucommons.scheduler.models import (
    LayoutView,
    MoreGpus,
    QuotaChanges,
    ReclaimRequest,
    ReplayRequest,
)
from gpucommons.scheduler.pages.base import JsonHandler, PageHandler
from gpucommons.scheduler.pages.present import capacity
from gpucommons.scheduler.pages.present.idle import reclaimed_text
from gpucommons.scheduler.pages.present.quotas.inputs import (
    QuotaInputs,
    changes_from,
    difference,
    unreadable,
)
from gpucommons.scheduler.pages.present.replay import replay_rows
from gpucommons.scheduler.pages.settings import WRITES_OFF

#: What a layout check may answer instead of a layout: the edit is wrong, not the request.
_REFUSALS = (HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY)


class ReclaimInput(BaseModel):
    """The dialog's fields."""

    model_config = ConfigDict(extra="forbid")

    force: bool = False
    reason: str = Field(default="", max_length=500)


class _AdminWrite(JsonHandler):
    #: Leads may do this in their teams; the API looks whose it is.
    for_leads = False

    async def prepare(self) -> None:
        """Admins only, and only where the browser may write at all."""
        await super().prepare()
        me = await self.whoami()
        if not (me.admin or (self.for_leads and me.leads)):
            raise Forbidden(gettext("Only admins change quotas or take GPUs back: ask yours."))
        if not self.site.settings.admin_writes:
            raise Forbidden(gettext(WRITES_OFF))


class CheckQuotas(_AdminWrite):
    """The live check while an admin types."""

    async def post(self) -> None:
        """Say whether the edits can be laid out, and what they change."""
        inputs = self.body(QuotaInputs)
        try:
            changes = changes_from(inputs, dry_run=True)
        except BadRequest as error:
            cell = unreadable(inputs)
            self.answer({"ok": False, "text": str(error), "changes": [], "cell": cell})
            return
        teams = await self.ask(calls.teams())
        layout = await self._layout(changes)
        self.answer(
            {
                "ok": layout["ok"],
                "text": layout["text"],
                "changes": difference(teams.teams, changes),
            }
        )

    async def _layout(self, changes: QuotaChanges) -> dict[str, object]:
        try:
            layout: LayoutView = await self.ask(calls.set_quotas(changes))
        except SchedulerError as error:
            if error.status not in _REFUSALS:
                raise
            return {"ok": False, "text": str(error)}
        return {"ok": layout.ok, "text": layout.text}


class SaveQuotas(_AdminWrite):
    """Save the edits, all or none."""

    async def post(self) -> None:
        """Save; the answer says what was laid out."""
        changes = changes_from(self.body(QuotaInputs), dry_run=False)
        layout = await self.ask(calls.set_quotas(changes))
        self.answer({"ok": layout.ok, "text": layout.text})


class ReplayQuotas(_AdminWrite):
    """The last week again under the edits; nothing is saved."""

    async def post(self) -> None:
        """Both sides of the comparison, in words."""
        changes = changes_from(self.body(QuotaInputs), dry_run=True)
        try:
            answer = await self.ask(calls.replay(ReplayRequest(days=7, changes=changes.changes)))
        except SchedulerError as error:
            if error.status not in (*_REFUSALS, HTTPStatus.NOT_FOUND):
                raise
            self.answer({"text": str(error), "rows": []})
            return
        self.answer({"text": sentence(answer.text), "rows": replay_rows(answer)})


class ReplayOnMore(PageHandler):
    """The last week again on more GPUs: a form of the report, answered with a page."""

    async def post(self) -> None:
        """Both sides of the comparison."""
        await self.whoami()
        pool, gpus = self.get_body_argument("pool", ""), self.get_body_argument("gpus", "")
        try:
            more = MoreGpus.model_validate({"pool": pool, "gpus": int(gpus)})
        except ValueError:
            raise BadRequest(gettext("Name a pool, and from 1 to 1000 more GPUs.")) from None
        answer, nodes = await asyncio.gather(
            self.ask(calls.replay(ReplayRequest(days=7, more=[more]))), self.ask(calls.nodes())
        )
        self.show(
            "more_gpus.html",
            active="admin",
            pool=more.pool,
            gpus=more.gpus,
            answer=answer,
            rows=replay_rows(answer),
            simulated=capacity.simulated(nodes),
            data_ms=nodes.now_ms,
        )


class Reclaim(_AdminWrite):
    """Take a notebook's GPU back."""

    for_leads = True

    async def post(self, lease_id: str) -> None:
        """Idle: its user is asked first. Busy: only by force, with a reason."""
        wish = self.body(ReclaimInput)
        if wish.force and not wish.reason.strip():
            raise BadRequest(
                gettext("Write down why a busy notebook is stopped: its user will read it.")
            )
        request = ReclaimRequest(force=wish.force, reason=wish.reason.strip())
        lease = await self.ask(calls.reclaim(lease_id, request))
        text = reclaimed_text(lease, forced=wish.force, now_ms=self.site.now_ms())
        self.answer({"text": text})
