"""How much one user may submit and have waiting: asked before a job's files are read, and when it is stored."""

from __future__ import annotations

from dataclasses import replace

from gpucommons.scheduler.core.model.types import Millis, Spec, UserName, WorkloadId
from gpucommons.scheduler.intake import check_pending
from gpucommons.scheduler.parents import Parent, ParentId
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.service.views.jobs import request_of
from gpucommons.scheduler.store.base import Admit

_HOUR_MS = 3_600_000


def beside(
    pending: frozenset[WorkloadId | ParentId],
    resumed: WorkloadId | None,
    part_of: Parent | None = None,
) -> int:
    """How many wait beside a new job: not the one whose place it takes, and not what it is part of."""
    return len(pending - {resumed, None if part_of is None else part_of.parent_id})


def check_submits(service: Service, spec: Spec) -> None:
    """Refuse what is more than its owner may submit within an hour."""
    check_hour(service, spec.owner, size_bytes=len(request_of(spec).model_dump_json().encode()))


def check_sweep(service: Service, owner: UserName, *, size_bytes: int) -> None:
    """Refuse what is more of sweeps and jobs than one may write within an hour: both are kept for as long."""
    since_ms = Millis(service.now_ms() - _HOUR_MS)
    jobs = service.store.submits(owner, since_ms=since_ms)
    written = service.store.sweeps.size_bytes(owner, since_ms=since_ms)
    before = replace(jobs, size_bytes=jobs.size_bytes + written)
    service.submits.check(owner, before, size_bytes)


def check_hour(service: Service, owner: UserName, *, size_bytes: int) -> None:
    """Refuse so many bytes more of who has submitted too much within the hour."""
    # Whose job it is: a service submits for many.
    before = service.store.submits(owner, since_ms=Millis(service.now_ms() - _HOUR_MS))
    service.submits.check(owner, before, size_bytes)


def within_the_caps(service: Service, spec: Spec) -> Admit:
    """Looks once more where nobody else of the owner's can come in between."""
    cluster = service.loop.cluster
    team = cluster.teams.get(spec.team)

    def admit(pending: frozenset[WorkloadId | ParentId]) -> None:
        if team is not None:  # else the cycle says so
            waiting = beside(pending, spec.resume_from, spec.part_of)
            check_pending(waiting, team, cluster.policy)
        check_submits(service, spec)

    return admit
