"""``POST gpucommons/advise``: plans for a model whose configuration lies beside the user's files, or that jobs trained."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from jupyter_server.auth.decorator import authorized
from pydantic import Field, StringConstraints, ValidationError
from tornado import web

from gpucommons.labextension.requests import sentence_of
from gpucommons.labextension.routes.files import FileHandler
from gpucommons.scheduler import models
from gpucommons.scheduler.client import calls
from gpucommons.scheduler.client.describing import framework_of_script, of_config_file
from gpucommons.scheduler.errors import BadRequest, SchedulerError


class PlanQuestion(models.Model):
    """A file or jobs, and all else that is asked: the fields of ``POST /v1/advise`` without the network."""

    #: A ``config.json`` below this server's folder.
    config: Annotated[str, StringConstraints(max_length=1024)] = ""
    #: In its place: jobs that trained it with this batch.
    like: list[models.Name] = Field(default_factory=list, max_length=8)
    #: A script below this server's folder: it is read for whose arguments it takes.
    script: Annotated[str, StringConstraints(max_length=1024)] = ""
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
            network = await self._network(question)
            asked = await self._framework(question) | question.asked
            view = await self.scheduler().send(calls.advise(_request(asked, network)))
        except SchedulerError as error:
            self.refuse(error)
        else:
            self.answer(view)

    async def _network(self, question: PlanQuestion) -> models.NetworkModel:
        if bool(question.config) == bool(question.like):
            raise BadRequest("Name the model's config.json, or jobs that trained it.")
        if question.like:
            return models.UnknownModel(kind="unknown", like=question.like)
        file = await asyncio.to_thread(self.desk().locate, question.config, suffixes=())
        return await asyncio.to_thread(of_config_file, file)

    async def _framework(self, question: PlanQuestion) -> dict[str, Any]:
        """A script that cannot be read takes nobody's arguments, as far as is known."""
        if not question.script.endswith(".py"):
            return {}
        try:
            file = await asyncio.to_thread(self.desk().locate, question.script, suffixes=(".py",))
            return {"framework": await asyncio.to_thread(framework_of_script, file)}
        except SchedulerError:
            return {}


def _request(asked: dict[str, Any], network: models.NetworkModel) -> models.AdviceRequest:
    try:
        return models.AdviceRequest.model_validate({**asked, "network": network})
    except ValidationError as error:
        raise BadRequest(sentence_of(error)) from None
