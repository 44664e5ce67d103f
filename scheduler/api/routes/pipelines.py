"""Routes of pipelines."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

from gpucommons.scheduler import models
from gpucommons.scheduler.api.caller import AnyCaller, IdempotencyKey
from gpucommons.scheduler.api.routes.routers import a_router
from gpucommons.scheduler.service.pipelines import pipelines

router = a_router("pipelines")

Owner = Annotated[models.UserName, Path()]
PipelineName = Annotated[models.Name, Path()]


@router.post("/pipelines", status_code=201)
async def submit_pipeline(
    request: models.PipelineRequest, caller: AnyCaller, key: IdempotencyKey = None
) -> models.PipelineView:
    """Run jobs that belong together: each starts once what it needs is there."""
    return await caller.run_dear(pipelines.submit_pipeline, request, key=key)


@router.get("/pipelines", name="pipelines")
async def list_pipelines(
    caller: AnyCaller,
    name: Annotated[models.Name | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=pipelines.MAX_LISTED)] = pipelines.MAX_LISTED,
    cursor: Annotated[models.Id | None, Query()] = None,
) -> models.PipelineList:
    """A page of pipelines that the caller may see, newest first; with a name those called so."""
    return await caller.run(pipelines.pipelines, name=name, limit=limit, cursor=cursor)


@router.get("/pipelines/{owner}/{name}", name="pipeline")
async def one_pipeline(owner: Owner, name: PipelineName, caller: AnyCaller) -> models.PipelineView:
    """A pipeline and how far its steps are."""
    return await caller.run(pipelines.pipeline, owner, name)


@router.post("/pipelines/{owner}/{name}/retry")
async def retry_pipeline(
    owner: Owner, name: PipelineName, ref: models.StepRef, caller: AnyCaller
) -> models.PipelineView:
    """Begin anew what did not come about, from one step on or from each of them."""
    return await caller.run(pipelines.retry_pipeline, owner, name, ref)


@router.post("/pipelines/{owner}/{name}/cancel")
async def cancel_pipeline(
    owner: Owner, name: PipelineName, ref: models.StepRef, caller: AnyCaller
) -> models.PipelineView:
    """Cancel a step and all that need it, or the whole pipeline."""
    return await caller.run(pipelines.cancel_pipeline, owner, name, ref)
