"""Every call about pipelines as a pure value."""

from __future__ import annotations

from gpucommons.scheduler import models
from gpucommons.scheduler.client.call import Call, path_of


def submit_pipeline(request: models.PipelineRequest, *, key: str) -> Call[models.PipelineView]:
    """Run a pipeline; the same key runs no other."""
    return Call(
        method="POST",
        path=path_of("pipelines"),
        answer=models.PipelineView,
        body=request,
        idempotency_key=key,
    )


def pipelines(cursor: str | None = None, *, name: str | None = None) -> Call[models.PipelineList]:
    """A page of pipelines that the caller may see, newest first; with a name those that are called so."""
    asked = {"cursor": cursor, "name": name}
    query = {field: value for field, value in asked.items() if value is not None}
    return Call(method="GET", path=path_of("pipelines"), answer=models.PipelineList, query=query)


def pipeline(owner: str, name: str) -> Call[models.PipelineView]:
    """One pipeline and how far its steps are."""
    return Call(method="GET", path=path_of("pipelines", owner, name), answer=models.PipelineView)


def retry_pipeline(owner: str, name: str, step: str | None = None) -> Call[models.PipelineView]:
    """Begin anew what did not come about."""
    path = path_of("pipelines", owner, name, "retry")
    return Call(
        method="POST", path=path, answer=models.PipelineView, body=models.StepRef(step=step)
    )


def cancel_pipeline(owner: str, name: str, step: str | None = None) -> Call[models.PipelineView]:
    """Cancel a step and what is below it, or all."""
    path = path_of("pipelines", owner, name, "cancel")
    return Call(
        method="POST", path=path, answer=models.PipelineView, body=models.StepRef(step=step)
    )
