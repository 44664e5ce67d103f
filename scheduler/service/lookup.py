"""Finding what a reference means: an id, a readable name, or a name with its team."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gpucommons.scheduler.core.going_on.hibernating import speaks_for
from gpucommons.scheduler.core.model.intents import Intent, Submit
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    Kind,
    TeamName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.errors import BadRequest, StaleAttempt, UnknownTeam, UnknownWorkload
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.service.views.jobs import queued
from gpucommons.scheduler.store.base import WorkloadFilter

_ID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_JOB_KINDS = frozenset({Kind.TRAINING, Kind.RETRAIN})


def also_ended(service: Service, ids: Iterable[WorkloadId | None]) -> Mapping[WorkloadId, Workload]:
    """All workloads that go on, and those of these that have ended, or were not yet seen by a cycle."""
    going = service.loop.cluster.workloads
    away = {one for one in ids if one is not None and one not in going}
    others = service.store.workloads_by_id(away) if away else {}
    if unseen := away - others.keys():
        intents = service.store.intent_submits(unseen)
        others |= {one: queued(intent) for one, intent in intents.items()}
    if left := away - others.keys():
        # Between the two looks a cycle may have made workloads of intents.
        others |= service.store.workloads_by_id(left)
    return ChainMap(others, going)  # type: ignore[arg-type] # it is only read


def workload_of(service: Service, workload_id: str) -> Workload:
    """A workload by its id, live, final, or not yet seen by a cycle.

    Raises
    ------
    UnknownWorkload
        When there is none.
    """
    key = WorkloadId(workload_id)
    found = also_ended(service, (key,)).get(key)
    if found is None:
        raise UnknownWorkload
    return found


def check_team(service: Service, name: str) -> None:
    """Refuse a team that there is not.

    Raises
    ------
    UnknownTeam
        With the names of those that there are.
    """
    teams = service.loop.cluster.teams
    if TeamName(name) not in teams:
        raise UnknownTeam(
            f"There is no team {name!r}. Teams: {', '.join(sorted(teams)) or 'none'}."
        )


def is_id(ref: str) -> bool:
    """Whether it is a workload's id, and not a name."""
    return _ID.match(ref) is not None


def find_job(service: Service, principal: Principal, ref: str) -> Workload:
    """A job by id or name, among those that the caller may know of.

    Raises
    ------
    UnknownWorkload, BadRequest, Forbidden
        When there is none, several teams have one of that name, or the caller may not look.
    """
    authorization.sight.read(principal)
    if is_id(ref):
        found = workload_of(service, ref)
        is_seen = authorization.sight.sees(principal, found.spec.team, found.spec.owner)
        if not (is_seen and authorization.sight.is_job(found)):
            raise UnknownWorkload
        return found
    team, _, name = ref.rpartition("/")
    where = WorkloadFilter(
        kinds=_JOB_KINDS,
        name=name,
        teams=frozenset({TeamName(team)}) if team else frozenset(),
    )
    # In this order: one that a cycle takes up between the two looks is then found by the second.
    waiting = tuple(_waiting(service, where))
    stored = service.store.workloads(where, limit=100).items
    known = {found.workload_id: found for found in (*waiting, *stored)}
    seen = [
        w for w in known.values() if authorization.sight.sees(principal, w.spec.team, w.spec.owner)
    ]
    if len(seen) > 1:
        options = ", ".join(f"{found.spec.team}/{found.spec.name}" for found in seen)
        message = f"Several jobs are called {name}: write one of {options}."
        raise BadRequest(message)
    if not seen:
        message = f"There is no job {ref!r}, or it is not yours to see."
        raise UnknownWorkload(message)
    # The store may be a moment behind the loop.
    return service.loop.cluster.workloads.get(seen[0].workload_id, seen[0])


def find_jobs(service: Service, principal: Principal, refs: Iterable[str]) -> tuple[Workload, ...]:
    """Several that the caller may look at, each once; see :func:`find_job`."""
    found = tuple(find_job(service, principal, ref) for ref in dict.fromkeys(refs))
    for workload in found:
        authorization.jobs.job(principal, workload)
    return found


def jobs_by_id(service: Service, principal: Principal, ids: Sequence[str]) -> tuple[Workload, ...]:
    """Many that the caller may look at, in one look; see :func:`find_job`."""
    authorization.sight.read(principal)
    wanted = frozenset(WorkloadId(one) for one in ids)
    if not wanted:
        return ()
    # In this order: one that a cycle takes up between the two looks is then found by the second.
    unseen = {one.workload_id: one for one in unseen_submits(service) if one.workload_id in wanted}
    stored = service.store.workloads_by_id(wanted)
    jobs = filter(authorization.sight.is_job, {**unseen, **stored}.values())
    known = {one.workload_id: one for one in jobs}
    found = tuple(known[one] for one in map(WorkloadId, ids) if one in known)
    if len(found) < len(ids):
        strange = next(one for one in ids if WorkloadId(one) not in known)
        message = f"There is no job {strange!r}, or it is not yours to see."
        raise UnknownWorkload(message)
    for workload in found:
        authorization.jobs.job(principal, workload)
    return found


def _waiting(service: Service, where: WorkloadFilter) -> Iterable[Workload]:
    for workload in unseen_submits(service):
        spec = workload.spec
        in_team = not where.teams or spec.team in where.teams
        if in_team and spec.kind in where.kinds and spec.name == where.name:
            yield workload


def unseen_submits(service: Service) -> tuple[Workload, ...]:
    """Submitted workloads that no cycle has seen yet, oldest first."""
    return tuple(queued(intent) for intent in service.store.asked().intents if _submits(intent))


def _submits(intent: Intent) -> bool:
    return isinstance(intent.action, Submit) and not intent.action.redeem


def find_lease(service: Service, lease_id: str) -> Workload:
    """A lease by id.

    Raises
    ------
    UnknownWorkload
        When there is none.
    """
    found = workload_of(service, lease_id)
    if authorization.sight.is_job(found):
        raise UnknownWorkload
    return found


class Speaker(NamedTuple):
    """Who speaks with the token of an attempt: its job, and the attempt in which its processes live now.

    A process that was woken has the token of the attempt in which it began, and speaks for the current one.
    """

    workload: Workload
    attempt: Attempt


def speaker(service: Service, attempt_id: AttemptId) -> Speaker:
    """The job whose current attempt this is, or one whose processes live on in the current one.

    Raises
    ------
    StaleAttempt
        When the attempt is not the current one of any job.
    Unavailable
        When nobody can tell, because the store is away.
    """
    found = _CURRENT.of(service.loop.cluster).get(attempt_id)
    if found is None:
        # A worker that is called stale leaves for good, and a replica may be behind its leader.
        service.loop.catch_up()
        found = _CURRENT.of(service.loop.cluster).get(attempt_id)
    if found is None or found.current is None:
        raise StaleAttempt
    return Speaker(found, found.current)


class _Current:
    """Workloads by their current attempt, looked up once for each cluster: every worker asks."""

    def __init__(self) -> None:
        self._last: tuple[Cluster, dict[AttemptId, Workload]] = (Cluster(), {})

    def of(self, cluster: Cluster) -> dict[AttemptId, Workload]:
        known, found = self._last
        if known is not cluster:
            found = {
                attempt.attempt_id: workload
                for workload in cluster.workloads.values()
                for attempt in speaks_for(workload)
            }
            self._last = (cluster, found)
        return found


_CURRENT = _Current()
