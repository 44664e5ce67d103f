"""What all our handlers share: who may call, how a refusal looks, what a body may be.

Everything below ``gpucommons/`` needs a logged-in user whom the server's authorizer allows; what
changes something needs the server's owner, because it is done with the owner's token.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import Any, TypeVar

from jupyter_server.base.handlers import APIHandler, JupyterHandler
from pydantic import BaseModel, ValidationError

from gpucommons.labextension.hibernation.hibernation import Hibernation
from gpucommons.labextension.job_offers.offering import Offering
from gpucommons.labextension.live.fanout import Fanout
from gpucommons.labextension.live.feed import Feed
from gpucommons.labextension.live.sampler import Sampler
from gpucommons.labextension.outputs.listening import Outputs
from gpucommons.labextension.requests import AWAY, sentence_of
from gpucommons.labextension.results import Results
from gpucommons.labextension.server_context import ServerContext
from gpucommons.labextension.variables.folders import Folders
from gpucommons.scheduler.client import AsyncSchedulerClient
from gpucommons.scheduler.errors import (
    BadRequest,
    Forbidden,
    SchedulerError,
    TooLarge,
    Unavailable,
    Unreachable,
)
from gpucommons.scheduler.languages.answers import reader_of, told_in
from gpucommons.scheduler.models import ErrorView

M = TypeVar("M", bound=BaseModel)

#: For the server's authorizer.
AUTH_RESOURCE = "gpucommons"
#: A job's description; files go another way.
MAX_BODY_BYTES = 256 * 1024
#: Key of our parts in the web application's settings.
SETTING = "gpucommons"
#: As the API takes it: whatever the page makes of it.
_KEY = re.compile(r"[\x21-\x7e]{1,200}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """What the handlers work with; one per server."""

    context: ServerContext
    #: None where there is no scheduler.
    scheduler: AsyncSchedulerClient | None
    fanout: Fanout
    feed: Feed
    sampler: Sampler
    results: Results
    #: None where kernels end with their server.
    hibernation: Hibernation | None
    #: None where another extension has its own way with outputs.
    outputs: Outputs | None
    #: None where nothing is known of cells, or there is no slice.
    offering: Offering | None
    #: Variables that earlier servers of this user stored.
    stored: Folders


class Ours:
    """Mixed into every handler of ours."""

    auth_resource = AUTH_RESOURCE
    # An open tab talks to us all the time; that is not activity.
    _track_activity = False

    @property
    def parts(self: Any) -> Parts:
        """The parts of this server."""
        parts: Parts = self.settings[SETTING]
        return parts


class ApiHandler(Ours, APIHandler):
    """A REST handler that answers refusals with a sentence."""

    def scheduler(self) -> AsyncSchedulerClient:
        """The scheduler.

        Raises
        ------
        Unavailable
            Where this server knows none.
        """
        if self.parts.scheduler is None:
            raise Unavailable(
                "There is no GPU Commons scheduler here: this server was not started by its hub."
            )
        return self.parts.scheduler

    def require_owner(self) -> None:
        """Refuse whoever is logged in here but is not whose server and token this is."""
        refuse_others(self, self.parts.context)

    def idempotency_key(self) -> str:
        """The page's own key, so that a click whose answer was lost can be repeated; else a new one.

        Raises
        ------
        BadRequest
            Where the page sent one that is not passed on: it would count on it.
        """
        key = self.request.headers.get("Idempotency-Key")
        if key is None:
            return str(uuid.uuid4())
        if not _KEY.fullmatch(key):
            raise BadRequest("An Idempotency-Key is 1 to 200 visible characters of ASCII.")
        return key

    def body_as(self, model: type[M]) -> M:
        """The body as a model; an empty one is the model's defaults."""
        if len(self.request.body) > MAX_BODY_BYTES:
            message = f"This body is larger than {MAX_BODY_BYTES // 1024} KiB."
            raise TooLarge(message)
        try:
            return model.model_validate_json(self.request.body or b"{}")
        except ValidationError as error:
            raise BadRequest(sentence_of(error)) from None

    def refuse(self, error: SchedulerError) -> None:
        """Answer with the error's status and sentence."""
        message = str(error)
        if isinstance(error, Unreachable):
            self.log.warning("%s", error)
            message = AWAY
        self.set_status(error.status)
        view = ErrorView(error=error.code, message=message)
        self._say(view.model_dump_json(exclude={"details"}))

    async def show_soon(self) -> None:
        """Something was done: the open tabs shall see it without waiting for its event."""
        try:
            await self.parts.feed.refresh_soon()
        except SchedulerError as error:
            self.log.debug("not refreshed: %s", error)

    def answer(self, view: BaseModel) -> None:
        """Answer with a view."""
        self._say(view.model_dump_json())

    def _say(self, text: str) -> None:
        """In the language that the page is shown in."""
        self.finish(told_in(reader_of(self.request.headers.get("Accept-Language", "")), text))


def refuse_others(handler: JupyterHandler, context: ServerContext) -> None:
    """See :meth:`ApiHandler.require_owner`.

    Raises
    ------
    Forbidden
        When the caller is somebody else. Outside a hub there is only one user.
    """
    name = handler.current_user.username
    if context.owner and name != context.owner:
        message = f"This is {context.owner}'s server: only they may do this here, not {name}."
        raise Forbidden(message)
