"""Messages by mail: plain text through the operator's server, one connection each."""

from __future__ import annotations

import contextlib
import smtplib
import ssl
from email.message import EmailMessage
from email.utils import formatdate

from gpucommons.scheduler.errors import BadRequest, Unavailable
from gpucommons.scheduler.notifications.preferences import Notification
from gpucommons.scheduler.notifications.settings import MailSettings, read_login, refusal

_TIMEOUT_S = 20.0
_SUBJECT_CHARACTERS = 150
_LATER = range(400, 500)


def send(settings: MailSettings, message: Notification, address: str) -> None:
    """Hand one message to the server.

    Raises
    ------
    BadRequest
        When it will never be taken.
    Unavailable
        When it may be later.
    """
    why_not = refusal(settings, address)
    if why_not is not None:
        raise BadRequest(why_not)
    try:
        with contextlib.closing(_connected(settings)) as server:
            if settings.login_file is not None:
                server.login(*read_login(settings.login_file))
            server.send_message(as_mail(settings, message, address))
            # It was taken: a goodbye that fails must not send it again.
            with contextlib.suppress(OSError, smtplib.SMTPException):
                server.quit()
    except smtplib.SMTPRecipientsRefused as error:
        code, said = next(iter(error.recipients.values()))
        raise _failure(code, f"{address} was refused", said) from None
    except smtplib.SMTPResponseException as error:
        raise _failure(error.smtp_code, "The mail server refused", error.smtp_error) from None
    except (OSError, ValueError, smtplib.SMTPException) as error:
        # Neither holds the password.
        text = f"The mail server could not be used: {type(error).__name__}"
        raise Unavailable(text) from None


def as_mail(settings: MailSettings, message: Notification, address: str) -> EmailMessage:
    """Plain text. Names of jobs are users' words: nothing of them begins a header of its own."""
    telling = message.telling
    domain = settings.sender.rpartition("@")[2]
    mail = EmailMessage()
    mail["Subject"] = one_line(f"[GPU Commons] {telling.subject}")
    mail["From"] = settings.sender
    mail["To"] = address
    mail["Date"] = formatdate(telling.at_ms / 1000)
    # The same when it is sent again: mail programs show one of them.
    mail["Message-ID"] = f"<{message.notification_id}@{domain}>"
    mail["X-GPUCommons-Id"] = message.notification_id
    # No vacation notes in return.
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(f"{telling.text}\n\n-- \nYour choice: gpucommons notify show\n")
    return mail


def one_line(text: str) -> str:
    """Without ends of lines and other signs that are not seen, and not too long."""
    seen = "".join(sign if sign.isprintable() else " " for sign in text)
    line = " ".join(seen.split())
    return line if len(line) <= _SUBJECT_CHARACTERS else line[: _SUBJECT_CHARACTERS - 1] + "…"


def _connected(settings: MailSettings) -> smtplib.SMTP:
    context = ssl.create_default_context()
    if settings.tls == "tls":
        return smtplib.SMTP_SSL(settings.host, settings.port, timeout=_TIMEOUT_S, context=context)
    server = smtplib.SMTP(settings.host, settings.port, timeout=_TIMEOUT_S)
    if settings.tls == "starttls":
        try:
            server.starttls(context=context)
        except BaseException:
            server.close()
            raise
    return server


def _failure(code: int, what: str, said: bytes | str) -> BadRequest | Unavailable:
    words = said.decode(errors="replace") if isinstance(said, bytes) else said
    text = one_line(f"{what}: {code} {words}")
    return Unavailable(text) if code in _LATER else BadRequest(text)
