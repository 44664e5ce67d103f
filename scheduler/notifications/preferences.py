"""What somebody wants to be told, how, and one message on its way."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gpucommons.scheduler.core.model.types import Millis, UserName

#: Messages of one user that may wait for one channel; a receiver that is away for long gets no more.
MOST_WAITING = 100
#: Mails of one user within an hour: an address is whatever its owner writes, and may be another's.
MOST_MAILS, HOUR_MS = 60, 3_600_000
#: What became of messages is kept so long; a reader that begins again knows by it what was sent.
KEPT_MS = 7 * 86_400_000


class About(StrEnum):
    """What a message is about."""

    #: A notebook is idle: warned, returned, saved; what is kept ends soon.
    IDLE = "idle"
    #: A job starts, or a ticket's turn has come.
    START = "start"
    #: A job was stopped or lost and goes on later; an admin took a notebook's GPU.
    PREEMPT = "preempt"
    #: A job, sweep or pipeline is over, with its outcome.
    FINISH = "finish"
    #: The last week in sums.
    WEEK = "week"
    #: A test that somebody asked for.
    TEST = "test"
    #: Brings the code that confirms an address.
    CONFIRM = "confirm"


#: What can be chosen.
CHOICES = (About.IDLE, About.START, About.PREEMPT, About.FINISH, About.WEEK)


class Channel(StrEnum):
    """How somebody is told."""

    MAIL = "mail"
    WEBHOOK = "webhook"


class Fate(StrEnum):
    """What became of a message."""

    #: To be sent, now or after a pause.
    WAITING = "waiting"
    #: The mail server or the receiver has taken it.
    SENT = "sent"
    #: It was refused, or nobody took it in all tries.
    FAILED = "failed"
    #: Never tried: too many waited, or its owner chose otherwise meanwhile.
    DROPPED = "dropped"


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """What one user has chosen."""

    owner: UserName
    mail: frozenset[About] = frozenset()
    #: "" = by the admin's rule.
    address: str = ""
    webhook: frozenset[About] = frozenset()
    url: str = ""
    #: Which of the keys that can be derived signs; grows with each new one.
    key_number: int = 0
    #: The code that was sent to ``address`` came back.
    confirmed: bool = False
    #: When the newest code for ``address`` was made; 0 = never.
    asked_ms: Millis = Millis(0)

    def wants(self, channel: Channel, about: About) -> bool:
        """Whether a message goes that way. A test goes wherever anything does."""
        if about is About.CONFIRM:
            return channel is Channel.MAIL and bool(self.address) and not self.confirmed
        chosen = self.mail if channel is Channel.MAIL else self.webhook
        return bool(chosen) if about is About.TEST else about in chosen


def version(choice: Choice) -> str:
    """Names what was chosen, as its owner sees it: two choices that look alike have the same.

    Whether an address is confirmed is no part of it: who confirms one has chosen nothing else.
    """
    seen = (sorted(choice.mail), choice.address, sorted(choice.webhook), choice.url)
    return hashlib.sha256(repr((*seen, choice.key_number)).encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True, slots=True)
class Telling:
    """Something that its owner may want to be told."""

    owner: UserName
    about: About
    #: What it is derived from: the same again gives the same message.
    source: str
    at_ms: Millis
    subject: str
    text: str
    #: Of the event: of two in one moment the first goes out first.
    number: int = 0
    #: For programs.
    facts: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Notification:
    """One message to one user by one channel."""

    notification_id: str
    channel: Channel
    telling: Telling
    made_ms: Millis
    fate: Fate = Fate.WAITING
    tries: int = 0
    #: None once nothing more becomes of it.
    next_ms: Millis | None
    #: Why the last try failed.
    said: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """How far the leader has read what there is to tell."""

    #: Number of the last event.
    event: int = 0
    #: Monday, UTC, of the last week that was summed up.
    week_ms: Millis = Millis(0)


def notification(telling: Telling, channel: Channel, now_ms: Millis) -> Notification:
    """A message that is to be sent at once, in the order of what happened; its id is the same however
    often it is made.
    """
    named = "\0".join((telling.source, telling.owner, channel))
    return Notification(
        notification_id=f"{telling.number:010x}{hashlib.sha256(named.encode()).hexdigest()[:22]}",
        channel=channel,
        telling=telling,
        made_ms=now_ms,
        next_ms=min(now_ms, telling.at_ms),
    )
