"""Use cases about profiles: publish, look, remove."""

from __future__ import annotations

from dataclasses import replace

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.intents import NoteSchedule
from gpucommons.scheduler.core.model.types import TeamName
from gpucommons.scheduler.errors import NotFound
from gpucommons.scheduler.intake import Found, job_spec
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.profiles import Profile
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.lookup import check_team
from gpucommons.scheduler.service.service import Service

_CALLBACKS = "from gpucommons.scheduler.training.callbacks."
#: The one line of each framework; their modules are there in every environment.
_LINES = {
    "transformers": f"{_CALLBACKS}transformers import follow; follow(trainer)",
    "lightning": f"{_CALLBACKS}lightning import Follow; Trainer(callbacks=[Follow()])",
    "keras": f"{_CALLBACKS}keras import Follow; model.fit(x, y, callbacks=[Follow()])",
}


def profiles(service: Service, principal: Principal) -> models.ProfileList:
    """Those of the caller's teams; of all for admins."""
    authorization.profiles.profiles(principal)
    found = service.store.profiles.all(None if principal.admin else principal.sees)
    return models.ProfileList(profiles=[_view(principal, one) for one in found])


def profile(service: Service, principal: Principal, team: str, name: str) -> models.ProfileView:
    """One profile."""
    authorization.profiles.profile(principal, team, name)
    return _view(principal, _find(service, team, name))


def put_profile(
    service: Service, principal: Principal, team: str, name: str, request: models.ProfileRequest
) -> models.ProfileView:
    """Publish one, or publish it anew; it is checked as a job of the team would be."""
    authorization.profiles.put_profile(principal, team, name)
    check_team(service, team)
    _check(service, principal, team, request)
    made = Profile(
        team=team,
        name=name,
        document=request.model_dump_json(exclude_defaults=True),
        published_by=principal.name,
        published_ms=service.now_ms(),
    )
    for known in service.store.profiles.all([team]):
        if known.name == name and known.document == made.document:
            return _view(principal, known)
    service.ask(principal, _note(made, "published"))
    with service.refusal_on_record(
        principal, lambda error: _note(made, "published", f"not published: {error}")
    ):
        service.store.profiles.put(made)
    return _view(principal, made)


def drop_profile(
    service: Service, principal: Principal, team: str, name: str
) -> models.ProfileView:
    """Remove one; jobs that were started with it stay. Answers with what it was."""
    authorization.profiles.drop_profile(principal, team, name)
    found = _find(service, team, name)
    service.ask(principal, _note(found, "removed"))
    service.store.profiles.drop(team, name)
    return _view(principal, found)


def drop_without_team(service: Service, principal: Principal) -> None:
    """Remove those whose team is gone: another one of its name, later, is not theirs."""
    teams = service.loop.cluster.teams
    for found in service.store.profiles.all():
        if TeamName(found.team) not in teams:
            service.ask(principal, _note(found, "removed", "removed with its team"))
            service.store.profiles.drop(found.team, found.name)


def _check(
    service: Service, principal: Principal, team: str, request: models.ProfileRequest
) -> None:
    """As a job of a member now; what is each user's own is looked at when one starts it."""
    own: dict[str, object] = {"secrets": {}, "team": team}
    if service.environments.kind == "folder":
        own["environment"] = ""
    job = request.job.request("profile").model_copy(update=own)
    member = replace(principal, teams=principal.teams | {TeamName(team)})
    job_spec(job, member, service.loop.cluster, Found(why_not=service.why_not))


def _find(service: Service, team: str, name: str) -> Profile:
    for found in service.store.profiles.all([team]):
        if found.name == name:
            return found
    raise NotFound(authorization.profiles.no_profile(team, name))


def _view(principal: Principal, found: Profile) -> models.ProfileView:
    said = models.ProfileRequest.model_validate_json(found.document)
    return models.ProfileView(
        team=found.team,
        name=found.name,
        description=said.description,
        callback=said.callback,
        callback_line=_LINES.get(said.callback or "", ""),
        job=said.job,
        published_by=found.published_by,
        published_ms=found.published_ms,
        steerable=authorization.profiles.steers_profiles(principal, found.team),
    )


def _note(found: Profile, change: str, words: str = "") -> NoteSchedule:
    """On record first, as all that people change is."""
    return NoteSchedule(
        kind=f"profile-{change}",
        text=f"profile {found.name} of {found.team} was {words or change}",
        team=TeamName(found.team),
        data={"name": found.name, "profile": found.document},
    )
