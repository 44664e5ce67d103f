"""What the operator allows and where the mail server is: one YAML file, ``--notifications``.

Without the file nobody is told anything by mail or webhook.
"""

from __future__ import annotations

import ipaddress
import os
import re
import stat
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

#: As users have them; no quotes, comments or several addresses. A domain may be of this site alone.
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250})")
_MOST_LOGIN_BYTES = 4096

Domain = Annotated[str, StringConstraints(pattern=r"^(\*|[A-Za-z0-9][A-Za-z0-9.-]{0,250})$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class MailSettings(_Strict):
    """The mail server, and to which addresses it may send."""

    host: str
    port: int = Field(587, ge=1, le=65535)
    tls: Literal["starttls", "tls", "none"] = "starttls"
    #: User on its first line, password on its second; readable by the scheduler's account alone.
    login_file: Path | None = None
    #: Whom messages come from.
    sender: str
    #: Domains that users may have messages sent to; ``*`` = any.
    domains: tuple[Domain, ...] = Field(min_length=1)
    #: Of users who set none, with ``{username}``; "" = they have to.
    address: str = ""

    @model_validator(mode="after")
    def _checked(self) -> MailSettings:
        if not is_address(self.sender):
            message = f"sender {self.sender!r} is no mail address: write it as gpu@example.org"
            raise ValueError(message)
        if self.login_file is not None and self.tls == "none":
            raise ValueError(
                "tls: none would send the password of login_file readable: use starttls"
            )
        if self.address and not is_address(self.address.replace("{username}", "a")):
            message = f"address {self.address!r} is none: write it as {{username}}@example.org"
            raise ValueError(message)
        return self


class WebhookSettings(_Strict):
    """Where users may have messages posted to."""

    #: Also without TLS.
    http: bool = False
    #: Networks inside of this site that may be reached, such as 10.1.2.0/24; others outside of it may.
    allow: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()


class NotificationSettings(_Strict):
    """What the file says; a part that is missing is off."""

    mail: MailSettings | None = None
    webhooks: WebhookSettings | None = None


def read_login(path: Path) -> tuple[str, str]:
    """User and password.

    Raises
    ------
    ValueError
        When others could read it, too, or it is none; without what it holds.
    OSError
        When it cannot be read.
    """
    with path.open("rb") as file:
        about = os.fstat(file.fileno())
        # A Secret's volume is root's, and the group's to read.
        others = 0o077 if about.st_uid == os.geteuid() and about.st_uid != 0 else 0o007
        if not stat.S_ISREG(about.st_mode) or about.st_mode & others:
            message = f"{path} can be read by others: chmod 600 {path}."
            raise ValueError(message)
        lines = file.read(_MOST_LOGIN_BYTES).decode().splitlines()
    if len(lines) < 2 or not (lines[0] and lines[1]):  # noqa: PLR2004 - see the message
        message = f"{path} holds no login: the user on its first line, the password on its second."
        raise ValueError(message)
    return lines[0], lines[1]


def is_address(text: str) -> bool:
    """Whether it is one plain mail address."""
    return _ADDRESS.fullmatch(text) is not None


def refusal(settings: MailSettings, address: str) -> str | None:
    """Why no mail goes there; None where it does."""
    if not is_address(address):
        return f"{address[:80]!r} is no mail address: write it as name@example.org."
    domain = address.rpartition("@")[2].lower()
    if "*" in settings.domains or domain in {one.lower() for one in settings.domains}:
        return None
    allowed = ", ".join(settings.domains)
    return f"Mail to {domain} is not allowed here. Allowed: {allowed}. Use an address there, or ask your admin."


def default_address(settings: MailSettings, owner: str) -> str:
    """By the admin's rule; "" where it makes none of this name."""
    made = settings.address.replace("{username}", owner) if settings.address else ""
    return made if is_address(made) else ""
