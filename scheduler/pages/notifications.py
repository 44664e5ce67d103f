"""What one is told by mail and webhook, as a page: choose, see what became of it, send a test."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import get_args

from pydantic import ValidationError

from gpucommons.scheduler.client import report_calls
from gpucommons.scheduler.errors import BadRequest, ChosenMeanwhile
from gpucommons.scheduler.languages.texts import gettext, gettext_noop
from gpucommons.scheduler.models.notifications import (
    AboutName,
    ConfirmRequest,
    NotificationRequest,
    NotificationsView,
)
from gpucommons.scheduler.models.text.field_errors import first_mistake
from gpucommons.scheduler.pages.base import PageHandler

#: What each choice means, in the order of the form.
MEANINGS: dict[AboutName, str] = {
    "idle": gettext_noop(
        "My notebook is idle: warned, its GPU returned, its kernels saved; what is kept ends in two days"
    ),
    "start": gettext_noop("A job of mine starts, or it is my turn in line"),
    "preempt": gettext_noop(
        "A job of mine is stopped or lost and goes on later; an admin takes my notebook's GPU"
    ),
    "finish": gettext_noop("A job, sweep or pipeline of mine is over, and how it ended"),
    "week": gettext_noop("Each Monday: my GPU hours, cost and jobs of the last week"),
}
_SAID = {
    "confirmed": gettext_noop("Confirmed: mail goes there from now on."),
    "test": gettext_noop(
        "A test is on its way. What became of it stands below; load this page again."
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Typed:
    """What stands in the form: what is saved, or what was typed and is not."""

    mail: list[str] = field(default_factory=list)
    address: str = ""
    webhook: list[str] = field(default_factory=list)
    url: str = ""
    new_key: bool = False
    #: What was saved when the form was shown.
    seen: str = ""


def saved(answer: NotificationsView) -> Typed:
    """The form as it is first shown."""
    return Typed(
        mail=list(answer.mail.about),
        address=answer.own_address,
        webhook=list(answer.webhook.about),
        url=answer.webhook.to,
        seen=answer.version,
    )


def _asked(typed: Typed) -> dict[str, object]:
    """An older scheduler tells no version, and would refuse to be told one."""
    return {name: value for name, value in asdict(typed).items() if value or name != "seen"}


class Choosing(PageHandler):
    """Whatever answers with the page of one's choice."""

    async def show_choice(
        self,
        answer: NotificationsView,
        *,
        said: str = "",
        refused: str = "",
        typed: Typed | None = None,
    ) -> None:
        """The page; ``refused`` is why what was asked there is not done, ``typed`` what was not saved."""
        week = await self.ask(report_calls.notifications_week())
        self.show(
            "notifications.html",
            active="notifications",
            asked=answer,
            typed=typed or saved(answer),
            is_unsaved=typed is not None,
            meanings=MEANINGS,
            week=week,
            said=said,
            refused=refused,
        )


class Notifications(Choosing):
    """The page and its form."""

    async def get(self) -> None:
        """Show it."""
        await self.whoami()
        answer = await self.ask(report_calls.notifications())
        await self.show_choice(
            answer, said=gettext(_SAID.get(self.get_query_argument("said", ""), ""))
        )

    async def post(self) -> None:
        """Save it, and show what was saved: a new key is shown this once."""
        await self.whoami()
        typed = self._typed()
        try:
            request = NotificationRequest.model_validate(_asked(typed))
            answer = await self.ask(report_calls.set_notifications(request))
        except (ValidationError, BadRequest, ChosenMeanwhile) as error:
            refused = first_mistake(error) if isinstance(error, ValidationError) else str(error)
            of = error if isinstance(error, ChosenMeanwhile) else BadRequest
            self.set_status(of.status)
            answer = await self.ask(report_calls.notifications())
            # Whoever has seen what was saved meanwhile may put this in its place.
            await self.show_choice(
                answer, refused=refused, typed=replace(typed, seen=answer.version)
            )
        else:
            await self.show_choice(answer, said=gettext("Saved."))

    def _typed(self) -> Typed:
        return Typed(
            mail=[name for name in get_args(AboutName) if self._is_set(f"mail-{name}")],
            address=self.get_body_argument("address", "").strip(),
            webhook=[name for name in get_args(AboutName) if self._is_set(f"webhook-{name}")],
            url=self.get_body_argument("url", "").strip(),
            new_key=self._is_set("new_key"),
            seen=self.get_body_argument("seen", ""),
        )

    def _is_set(self, name: str) -> bool:
        return self.get_body_argument(name, "") == "on"


class Confirm(Choosing):
    """The code that came to an address."""

    async def post(self) -> None:
        """Take it, and go back; who mistyped it is where they can type it again."""
        await self.whoami()
        try:
            request = ConfirmRequest(code=self.get_body_argument("code", "").strip())
            await self.ask(report_calls.confirm_address(request))
        except (ValidationError, BadRequest) as error:
            refused = first_mistake(error) if isinstance(error, ValidationError) else str(error)
            self.set_status(BadRequest.status)
            answer = await self.ask(report_calls.notifications())
            await self.show_choice(answer, refused=refused)
        else:
            self.redirect(f"{self.site.settings.prefix}notifications?said=confirmed", status=303)


class SendTest(PageHandler):
    """The button below the form."""

    async def post(self) -> None:
        """Have a test sent, and go back."""
        await self.whoami()
        await self.ask(report_calls.test_notifications())
        self.redirect(f"{self.site.settings.prefix}notifications?said=test", status=303)
