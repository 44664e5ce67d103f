"""Whether mail may go to an address that its user wrote: only once a code that was sent there has come back.

Nobody else is to get mail for what a user types. The code is derived from a key that is never handed
out, the user, the address and the moment, so that nothing secret is stored, and a code of another
user, another address or an earlier asking is none.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import replace

from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.notifications.preferences import About, Choice, Telling
from gpucommons.scheduler.notifications.settings import MailSettings, default_address

#: A code is good for so long.
CODE_MS = 86_400_000
#: A choice that is saved again soon makes no second mail.
AGAIN_MS = 600_000
#: Codes that are sent for one user within a day.
MOST_CODES = 5
#: 80 bits.
_CODE_BYTES = 10


def must_confirm(settings: MailSettings | None, choice: Choice) -> bool:
    """Its address is the user's own word alone; one by the admin's rule counts as confirmed."""
    if settings is None or not choice.address or choice.confirmed:
        return False
    return choice.address != default_address(settings, choice.owner)


def asking(before: Choice, choice: Choice, settings: MailSettings | None, now_ms: Millis) -> Choice:
    """A new choice with what is known of its address; ``asked_ms`` is now where a code is to be sent."""
    if choice.address == before.address:
        choice = replace(choice, confirmed=before.confirmed, asked_ms=before.asked_ms)
    if must_confirm(settings, choice) and now_ms - choice.asked_ms >= AGAIN_MS:
        return replace(choice, asked_ms=now_ms)
    return choice


def telling(choice: Choice) -> Telling:
    """The message that brings the code, without it: that is put in when it is sent."""
    return Telling(
        owner=choice.owner,
        about=About.CONFIRM,
        source=source(choice),
        at_ms=choice.asked_ms,
        subject="confirm this address",
        text="",
    )


def source(choice: Choice) -> str:
    """Which asking a message is of."""
    return f"confirm {choice.asked_ms}"


def text(choice: Choice, key: str, page_url: str) -> str:
    """What the mail says."""
    # A path alone is no address: a mail is read where no page of the hub is open.
    page = page_url if "://" in page_url else "the page Notifications of GPU Commons"
    where = f" on {page}" if page_url else ""
    return (
        f"{choice.owner} wants messages of GPU Commons to come to this address. Is that you? Enter this"
        f" code{where} or in a terminal:\n\n    gpucommons notify confirm {code(choice, key)}\n\n"
        "It is good for one day. Is it not you? Do nothing: no other mail comes."
    )


def code(choice: Choice, key: str) -> str:
    """``ABCD-EFGH-IJKL-MNOP``; ``key`` is this user's and never shown."""
    asked = "\0".join(("confirm", choice.owner, choice.address, str(choice.asked_ms)))
    digest = hmac.new(key.encode(), asked.encode(), hashlib.sha256).digest()[:_CODE_BYTES]
    found = base64.b32encode(digest).decode()
    return "-".join(found[at : at + 4] for at in range(0, len(found), 4))


def why_not(choice: Choice, key: str, given: str, now_ms: Millis) -> str | None:
    """Why a code does not confirm the address; None where it does."""
    if now_ms - choice.asked_ms > CODE_MS:
        return "The code is too old: save your choice once more, and a new one is sent."
    wanted, written = code(choice, key), "".join(given.split()).upper()
    if hmac.compare_digest(wanted.encode(), written.encode(errors="replace")):
        return None
    return f"That is not the code that was sent last to {choice.address}: look at the newest mail."


def waits(choice: Choice, now_ms: Millis) -> str:
    """What is missing, for its user."""
    if now_ms - choice.asked_ms > CODE_MS:
        return "No mail goes there before you confirm it: save your choice once more, and a code is sent to it."
    return "No mail goes there before you enter the code that is mailed to it."
