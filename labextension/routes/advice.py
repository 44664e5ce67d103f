"""``POST gpucommons/advise``: plans for a model whose configuration lies beside the user's files."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from jupyter_server.auth.decorator import authorized
from pydantic import StringConstraints, ValidationError
from tornado import web

from gpucommons.labextension.requests import sentence_of
from gpucommons.labextension.routes.files import FileHandler
from gpucommons.scheduler import models
from gpucommons.scheduler.client import calls
from gpucommons.scheduler.client.describing import of_config_file
from gpucommons.scheduler.errors import BadRequest, SchedulerError


class PlanQuestion(models.Model):
    """A file, and all else that is asked: the fields of ``POST /v1/advise`` without the network."""

    #: A ``config.json`` below this server's folder.
    config: Annotated[str, StringConstraints(min_length=1, max_length=1024)]
    asked: dict[str, Any]


class AdviceHandler(FileHandler):
    """Reads the file here and sends its numbers: the server's owner only, with their token."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Ask for plans."""
        try:
            self.require_owner()
            question = self.body_as(PlanQuestion)
            file = await asyncio.to_thread(self.desk().locate, question.config)
            network = await asyncio.to_thread(of_config_file, file)
            view = await self.scheduler().send(calls.advise(_request(question.asked, network)))
        except SchedulerError as error:
            self.refuse(error)
        else:
            self.answer(view)


def _request(asked: dict[str, Any], network: models.NetworkModel) -> models.AdviceRequest:
    try:
        return models.AdviceRequest.model_validate({**asked, "network": network})
    except ValidationError as error:
        raise BadRequest(sentence_of(error)) from None
