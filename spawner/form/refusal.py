"""How a start is refused: one sentence for the user, in the way each JupyterHub understands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tornado.web import HTTPError

from gpucommons.scheduler.errors import (
    Forbidden,
    HubRefusesToken,
    NotAuthenticated,
    SchedulerError,
)
from gpucommons.scheduler.languages.texts import gettext, gettext_noop
from gpucommons.spawner.form.answers import BadOptions

try:
    from jupyterhub.spawner import SpawnException
except ImportError:  # JupyterHub 5
    SpawnException = None


#: Waiting does not help: what each knows of the other was made at different times.
_STRANGERS = gettext_noop(
    "The GPU scheduler and this hub do not take each other's tokens, so only CPU can be started. An"
    " admin can mend that: the hub reads the tokens when it is restarted."
)
_SILENT = gettext_noop(
    "The GPU scheduler does not answer, so only CPU can be started. Load this page again in a moment."
)


def why_no_offers(error: SchedulerError) -> str:
    """What users read where the scheduler offers nothing; the error itself is for the hub's log."""
    if isinstance(error, HubRefusesToken | NotAuthenticated | Forbidden):
        return gettext(_STRANGERS)
    return gettext(_SILENT)


class _Refusal(HTTPError):
    """A refusal as JupyterHub 5 knows it."""

    def __init__(self, status: int, message: str, reason: str) -> None:
        super().__init__(status, message)
        # Shown instead of "Unhandled error".
        self.jupyterhub_message = message
        self.label = reason


def refusal(message: str, *, reason: str, status: int) -> HTTPError:
    """An error that stops a start without a traceback in the hub's log.

    ``reason`` is the label in the hub's metrics. The hub escapes the message; no HTML is sent.
    """
    if SpawnException is None:
        return _Refusal(status, message, reason)
    error: HTTPError = SpawnException(message, reason=reason, status_code=status)
    # Else its pages show status, class and label before the sentence.
    error.jupyterhub_message = message  # type: ignore[attr-defined]
    return error


def led_to(url: str, message: str, *, reason: str) -> HTTPError:
    """In place of a start, the browser goes to another page; ``message`` is for who does not follow.

    JupyterHub sends the headers of what ends a start.
    """
    error = refusal(message, reason=reason, status=303)
    error.headers = {"Location": url}  # type: ignore[attr-defined]
    return error


@contextmanager
def bad_options_refused() -> Iterator[None]:
    """Options that cannot be understood are their sender's to mend: status 400."""
    try:
        yield
    except BadOptions as error:
        raise refusal(str(error), reason="bad_options", status=400) from None
