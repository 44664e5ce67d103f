"""Why a notebook waits, what would help, and what alone is in the way: all of it in one language."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpucommons.scheduler.languages.sentences import sentence, translated
from gpucommons.scheduler.languages.texts import ENGLISH, gettext, gettext_noop, language
from gpucommons.scheduler.models import BlockerView, ReasonView

#: What can be done about what is in the way.
_BUTTONS = {
    "release": gettext_noop("Release it"),
    "leave": gettext_noop("Give it up"),
    "pause": gettext_noop("Pause it"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Blocking:
    """What alone is in the way, and the button for it."""

    text: str
    #: Of the lease or job; empty where somebody else is to be asked.
    holder: str
    #: ``Release it``.
    label: str


def why(reason: ReasonView | None) -> dict[str, Any]:
    """What the core says, in the reader's language if all of it is known there, else in its own."""
    text, unblock = ("", "") if reason is None else (reason.text, reason.unblock or "")
    found = None if reason is None else reason.blocker
    known = all(
        not one or translated(one) is not None
        for one in (text, unblock, "" if found is None else found.text)
    )
    say = sentence if known else str
    return {
        "reason": say(text),
        "unblock": say(unblock),
        "said_in": language() if known else ENGLISH,
        "blocking": None if found is None else _blocking(found, say(found.text)),
    }


def _blocking(found: BlockerView, text: str) -> Blocking:
    label = gettext(_BUTTONS[found.action]) if found.action in _BUTTONS else ""
    return Blocking(text=text, holder=found.id if label else "", label=label)
