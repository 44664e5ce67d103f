"""What somebody is told by mail and webhook, and what became of the last messages."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpucommons.scheduler.models.fields import Line, Model, View

#: What can be chosen.
AboutName = Literal["idle", "start", "preempt", "finish", "week"]
_Address = Annotated[Line, Field(max_length=320)]
_Url = Annotated[Line, Field(max_length=500)]


class NotificationRequest(Model):
    """A whole choice: what is left out is off."""

    mail: list[AboutName] = []
    #: "" = by the admin's rule, where there is one.
    address: _Address = ""
    webhook: list[AboutName] = []
    url: _Url = ""
    #: Sign with a new key from now on, which the answer alone shows.
    new_key: bool = False
    #: The version that was looked at; another one by now is refused. "" = whatever there is.
    seen: Annotated[Line, Field(max_length=64)] = ""


class ConfirmRequest(Model):
    """The code that came to an address."""

    code: Annotated[Line, Field(min_length=1, max_length=40)]


class ForgottenView(View):
    """What is not known of a user any more."""

    user: str
    #: Something was chosen.
    chose: bool
    #: How many messages were on record.
    messages: int


class NotificationView(View):
    """One message, as far as it came."""

    id: str
    channel: Literal["mail", "webhook"]
    about: str
    subject: str
    made_ms: int
    fate: Literal["waiting", "sent", "failed", "dropped"]
    tries: int
    #: Why the last try failed.
    said: str = ""


class ChannelView(View):
    """One way to be told."""

    about: list[AboutName]
    #: Where messages go; "" where there is no place yet.
    to: str
    #: Why it cannot be chosen here; "" where it can.
    why_not: str = ""
    #: Why nothing comes there yet: the address is not confirmed; "" where it is, or need not be.
    waits: str = ""


class NotificationsView(View):
    """A choice, and the newest messages."""

    mail: ChannelView
    #: Where mail would go that is not to an own address; "" without such a rule.
    default_address: str = ""
    #: Domains that mail may go to; ``*`` = any.
    domains: list[str] = []
    webhook: ChannelView
    #: Signs webhooks; only in the answer to the change that made it.
    key: str | None = None
    newest: list[NotificationView]
    #: Of this choice, to be sent back as ``seen`` with the next one; "" from an older scheduler.
    version: str = ""
    #: The page to choose on; "" where there is none.
    page_url: str = ""

    @property
    def own_address(self) -> str:
        """Where mail goes by the user's own word; "" = by the admin's rule, or nowhere."""
        return "" if self.mail.to == self.default_address else self.mail.to


class MessagePreview(View):
    """A message that is not sent."""

    subject: str
    text: str
