"""Rules about pipelines; who sees and cancels one is who sees and cancels its jobs."""

from __future__ import annotations

from gpucommons.scheduler.errors import Forbidden, NotFound
from gpucommons.scheduler.pipelines.pipeline import Pipeline
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service.authorization.sight import (
    may_submit,
    own_name,
    read,
    sees,
    steers,
)


def submit_pipeline(principal: Principal) -> None:
    """People, for themselves alone: its jobs run with their account and files."""
    may_submit(principal)


def pipelines(principal: Principal) -> None:
    """Readers; each sees what they see of jobs."""
    read(principal)


def pipeline(principal: Principal, found: Pipeline) -> None:
    """Owner, team, lead, admin; to others it is not there."""
    read(principal)
    if not sees(principal, found.team, found.owner):
        raise NotFound(no_pipeline(found.owner, found.name))


def retry_pipeline(principal: Principal, found: Pipeline) -> None:
    """Its owner alone: new jobs of theirs start."""
    pipeline(principal, found)
    if found.owner != own_name(principal):
        message = f"The pipeline {found.name} belongs to {found.owner}: only they retry it."
        raise Forbidden(message)
    may_submit(principal)


def cancel_pipeline(principal: Principal, found: Pipeline) -> None:
    """Owner, lead, admin."""
    pipeline(principal, found)
    if not steers(principal, found.team, found.owner):
        message = (
            f"The pipeline {found.name} belongs to {found.owner}: only its owner, a lead of"
            f" {found.team} or an admin may cancel it."
        )
        raise Forbidden(message)
    may_submit(principal)


def no_pipeline(owner: str, name: str) -> str:
    """The answer for one that is not there, or not theirs to see."""
    return f"There is no pipeline {name!r} of {owner}, or it is not yours to see. Another's is OWNER/NAME."
