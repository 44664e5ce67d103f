"""What happens to an object: kopf calls, the scheduler is asked, the answer goes into the status.

Every handler may be called again at any moment, after a restart too: a job is submitted with its
object's uid as the idempotency key, a team is saved as a whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

import kopf
from pydantic import BaseModel

from gpucommons.scheduler.client import AsyncSchedulerClient, calls
from gpucommons.scheduler.errors import (
    InvalidTransition,
    NotAuthenticated,
    NotFound,
    SchedulerError,
    Unavailable,
    UnknownTeam,
)
from gpucommons.scheduler.models import ConfigModel
from gpucommons.scheduler.operator import status
from gpucommons.scheduler.operator.cluster import Objects
from gpucommons.scheduler.operator.following import LiveObjects, Pace
from gpucommons.scheduler.operator.objects import (
    GROUP,
    JOBS,
    TEAMS,
    VERSION,
    job_request,
    made_of,
    ref_of,
    team_model,
)
from gpucommons.scheduler.operator.status import Said

R = TypeVar("R", bound=BaseModel)

FINALIZER = f"{GROUP}/operator"
#: So many questions to the scheduler are under way; workers of the framework are not counted, for
#: who was refused sleeps in one.
_AT_ONCE = 16
#: Before a job's end is looked for again while its object is being deleted.
_ENDING_S = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """Whom the handlers ask."""

    scheduler: AsyncSchedulerClient
    objects: Objects
    live_objects: LiveObjects
    pace: Pace
    now_ms: Callable[[], int]
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def send(self, call: calls.Call[R]) -> R:
        """Ask the scheduler when it is our turn."""
        async with self.turns:
            return await self.scheduler.send(call)


def is_away(error: SchedulerError) -> bool:
    """It is about us or the scheduler, not about the object."""
    return isinstance(error, Unavailable | NotAuthenticated) or type(error) is SchedulerError


class Jobs:
    """TrainingJobs."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    async def see(self, event: Mapping[str, Any], **_: Any) -> None:
        """Keep what is known of the objects."""
        if event["type"] == "DELETED":
            self._around.live_objects.forget(event["object"])
        else:
            self._around.live_objects.see(event["object"])

    async def submit(self, body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
        """Hand the job in, unless it was."""
        known = body.status
        if known.get("jobId"):
            return
        around = self._around
        ref = ref_of(body)
        team = await asyncio.to_thread(around.objects.team_of, ref.namespace)
        try:
            request = job_request(body.spec, ref, team=team)
            view = await around.send(calls.submit(request, key=ref.uid))
        except SchedulerError as error:
            raise self._not_submitted(error, known, patch) from None
        patch.status.update(status.of_job(view, known, now_ms=around.now_ms()))
        patch.status["observedGeneration"] = body.metadata["generation"]

    def _not_submitted(
        self, error: SchedulerError, known: Mapping[str, Any], patch: kopf.Patch
    ) -> kopf.TemporaryError:
        away = is_away(error)
        pace = self._around.pace
        said = Said(
            kind=status.ACCEPTED,
            holds=False,
            reason="SchedulerUnavailable" if away else error.code,
            message=str(error),
        )
        state = "submitting" if away else "refused"
        now_ms = self._around.now_ms()
        patch.status.update(status.of_failure(known, said, state=state, now_ms=now_ms))
        return kopf.TemporaryError(str(error), delay=pace.away_s if away else pace.refused_s)

    async def end(self, body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
        """Cancel the job and wait for its end, but not for ever."""
        job_id = body.status.get("jobId")
        if not job_id:
            # Should it have been submitted all the same, it is found without its object.
            return
        around = self._around
        waited_s = around.now_ms() / 1000 - _deleted_s(body)
        try:
            view = await around.send(calls.job(job_id))
            if made_of(view) != body.metadata["uid"]:
                # Whoever may write the status could name anybody's job there.
                return
            if view.state not in {*status.FINAL, "cancelling"}:
                view = await around.send(calls.cancel(job_id))
        except (InvalidTransition, NotFound):
            return
        except SchedulerError as error:
            if waited_s >= around.pace.give_up_s:
                return
            said = Said(kind=status.FOLLOWED, holds=False, reason=error.code, message=str(error))
            now_ms = around.now_ms()
            patch.status.update(status.of_failure(body.status, said, now_ms=now_ms))
            raise kopf.TemporaryError(str(error), delay=around.pace.away_s) from None
        if view.state not in status.FINAL and waited_s < around.pace.give_up_s:
            message = f"{view.name} is {view.state_text}."
            raise kopf.TemporaryError(message, delay=_ENDING_S)


def _deleted_s(body: kopf.Body) -> float:
    return datetime.fromisoformat(body.metadata["deletionTimestamp"]).timestamp()


class Teams:
    """Teams: what such an object says is in force, and can only be read elsewhere."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    async def save(self, body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
        """Put the team into force, unless it is."""
        around = self._around
        name = body.metadata["name"]
        try:
            me = (await around.send(calls.whoami())).name
            team = team_model(body.spec, name, managed_by=me)
            if not await self._is_in_force(team):
                await around.send(calls.put_config(ConfigModel(teams=[team])))
        except SchedulerError as error:
            away = is_away(error)
            said = Said(
                kind=status.READY,
                holds=False,
                reason="SchedulerUnavailable" if away else error.code,
                message=str(error),
            )
            patch.status.update(status.of_team(body.status, said, now_ms=around.now_ms()))
            delay = around.pace.away_s if away else around.pace.refused_s
            raise kopf.TemporaryError(str(error), delay=delay) from None
        said = Said(
            kind=status.READY, holds=True, reason="Saved", message="The team is as written here."
        )
        patch.status.update(status.of_team(body.status, said, now_ms=around.now_ms()))
        patch.status["observedGeneration"] = body.metadata["generation"]

    async def _is_in_force(self, team: Any) -> bool:
        config = await self._around.send(calls.get_config())
        wanted = team.model_dump()
        return any(_same(one.model_dump(), wanted) for one in config.teams)

    async def remove(self, body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
        """Remove the team once nothing of it lives; one that was taken back stays."""
        around = self._around
        name = body.metadata["name"]
        try:
            me = (await around.send(calls.whoami())).name
            config = await around.send(calls.get_config())
            ours = any(one.name == name and one.managed_by == me for one in config.teams)
            if ours:
                await around.send(calls.put_config(ConfigModel(removed_teams=[name])))
        except UnknownTeam:
            return
        except SchedulerError as error:
            waited_s = around.now_ms() / 1000 - _deleted_s(body)
            if is_away(error) and waited_s >= around.pace.give_up_s:
                return
            said = Said(kind=status.READY, holds=False, reason=error.code, message=str(error))
            patch.status.update(status.of_team(body.status, said, now_ms=around.now_ms()))
            raise kopf.TemporaryError(str(error), delay=around.pace.away_s) from None


_SETS = ("groups", "members", "leads")


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return _sorted(one) == _sorted(other)


def _sorted(team: dict[str, Any]) -> dict[str, Any]:
    """Lists that mean sets, in order."""
    policy = team["policy"]
    rules = {"environments", "priorities"}
    ordered = {name: sorted(policy[name]) if name in rules else policy[name] for name in policy}
    return {**team, **{name: sorted(team[name]) for name in _SETS}, "policy": ordered}


def login(**known: Any) -> kopf.ConnectionInfo | None:
    """As the pod's account where there is one, else as the kubeconfig says."""
    return kopf.login_with_service_account(**known) or kopf.login_with_kubeconfig(**known)


def registered(around: Surroundings) -> kopf.OperatorRegistry:
    """All handlers, in a registry of their own."""
    registry = kopf.OperatorRegistry()
    jobs, teams = Jobs(around), Teams(around)
    of_jobs: dict[str, Any] = {"registry": registry}
    of_teams: dict[str, Any] = {"registry": registry}
    kopf.on.login(registry=registry)(login)
    kopf.on.event(GROUP, VERSION, JOBS, **of_jobs)(jobs.see)
    kopf.on.resume(GROUP, VERSION, JOBS, **of_jobs)(jobs.submit)
    kopf.on.create(GROUP, VERSION, JOBS, **of_jobs)(jobs.submit)
    kopf.on.delete(GROUP, VERSION, JOBS, **of_jobs)(jobs.end)
    kopf.on.resume(GROUP, VERSION, TEAMS, **of_teams)(teams.save)
    kopf.on.create(GROUP, VERSION, TEAMS, **of_teams)(teams.save)
    kopf.on.update(GROUP, VERSION, TEAMS, field="spec", **of_teams)(teams.save)
    kopf.on.delete(GROUP, VERSION, TEAMS, **of_teams)(teams.remove)
    return registry
