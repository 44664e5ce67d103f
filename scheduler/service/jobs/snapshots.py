"""Whose snapshots are. A hash names one and is no key to it: it stands in logs, specs and addresses.

A snapshot belongs to whoever brought its bytes, and to the owners of jobs that run from it; the policy
``share_snapshots`` shares those of a team's jobs among its members, but for those with a key in them.
Everybody else is answered the same, by the same steps, whether it is here or not.
"""

from __future__ import annotations

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.resources import Team
from gpucommons.scheduler.core.model.types import UserName, Workload
from gpucommons.scheduler.errors import Forbidden
from gpucommons.scheduler.files.snapshots import Comparing, Receiving
from gpucommons.scheduler.models.jobs.jobs import KEY_ORIGINS, ORIGIN_LABEL
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.lookup import workload_of
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.store.base import WorkloadFilter


def are_shared(service: Service, team: Team | None) -> bool:
    """Whether the policy shares what jobs of this team ran from within the team."""
    hub_wide = service.loop.cluster.policy
    return hub_wide.share_snapshots or (team is not None and team.policy.share_snapshots)


def has_a_key(service: Service, sha256: str | None) -> bool:
    """Whether files are the key of a cluster: who had it would run what they like in its owner's notebook.

    Jobs of any team say so, also those that are over: a cluster may outlive the job of its workers, and its
    owner may have run the same files in another team, as a job of another kind.
    """
    if sha256 is None:
        return False
    where = WorkloadFilter(
        # All of them: the index has no files without a team.
        teams=frozenset(service.loop.cluster.teams),
        snapshot=sha256,
        labelled=frozenset((ORIGIN_LABEL, origin) for origin in KEY_ORIGINS),
    )
    return bool(service.store.workloads(where, limit=1).items)


def are_usable(
    service: Service, principal: Principal, request: models.JobRequest, team: Team
) -> bool:
    """Whether this team's job may be made of the files that the request names, and they are here."""
    sha256 = request.snapshot
    if sha256 is None:
        return True
    if _are_of_parent(service, principal, request, team):
        return service.snapshots.has(sha256)
    of = frozenset({UserName(request.user or principal.name), principal.name})
    claims = service.store.claims(sha256, of, team=team.name)
    allowed = authorization.jobs.use_snapshot(claims, shared=False) or (
        are_shared(service, team)
        and authorization.jobs.use_snapshot(claims, shared=True)
        and not has_a_key(service, sha256)
    )
    # Looked for only then: how long that takes is not for strangers to measure.
    return allowed and service.snapshots.has(sha256)


def _are_of_parent(
    service: Service, principal: Principal, request: models.JobRequest, team: Team
) -> bool:
    """Whether it is made from a job of this team and just these files, which the caller may run again."""
    if request.parent is None or request.user not in (None, principal.name):
        return False
    parent = workload_of(service, request.parent)
    authorization.jobs.job(principal, parent)
    return (parent.spec.snapshot, parent.spec.team) == (
        request.snapshot,
        team.name,
    ) and again_hindrance(service, principal, parent) is None


def check_may_run(service: Service, principal: Principal, found: Workload) -> None:
    """Refuse to run a job again for somebody who may not have its files.

    Raises
    ------
    Forbidden
        With whom to ask.
    """
    authorization.jobs.again(principal, found)
    if found.spec.snapshot is not None:
        team = service.loop.cluster.teams.get(found.spec.team)
        shared = are_shared(service, team)
        is_owner = principal.name == found.spec.owner
        with_key = not is_owner and has_a_key(service, found.spec.snapshot)
        authorization.jobs.run_files_of(principal, found, shared=shared, with_key=with_key)


def again_hindrance(service: Service, principal: Principal, found: Workload) -> str | None:
    """Why the caller may not run a job that they see again; None where they may."""
    try:
        check_may_run(service, principal, found)
    except Forbidden as refusal:
        return str(refusal)
    return None


def receive(service: Service, principal: Principal, sha256: str) -> Receiving | Comparing:
    """Begin an upload: what its sender has brought before is compared, all else is stored.

    Raises
    ------
    BadRequest, Unavailable
        When it cannot be taken.
    """
    brought = service.store.claims(sha256, frozenset({principal.name})).uploaded
    if brought and service.snapshots.renew(sha256):
        return Comparing(sha256=sha256)
    return service.snapshots.receive(sha256)


def finish(
    service: Service, principal: Principal, sha256: str, taking: Receiving | Comparing
) -> None:
    """End an upload: from now on the snapshot is, also, its sender's.

    Raises
    ------
    BadRequest
        When the bytes are not those announced.
    """
    taking.finish()
    service.store.note_upload(sha256, principal.name, at_ms=service.now_ms())
