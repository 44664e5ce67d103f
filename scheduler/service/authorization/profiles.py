"""Rules about profiles: the team reads them, its leads write them."""

from __future__ import annotations

from gpucommons.scheduler.core.model.types import TeamName
from gpucommons.scheduler.errors import Forbidden, NotFound
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service.authorization.sight import is_person, may_submit, read


def profiles(principal: Principal) -> None:
    """Readers; each sees those of their teams."""
    read(principal)


def profile(principal: Principal, team: str, name: str) -> None:
    """The team, its leads, admins; to others it is not there."""
    read(principal)
    if not (principal.admin or team in principal.sees):
        raise NotFound(no_profile(team, name))


def put_profile(principal: Principal, team: str, name: str) -> None:
    """Leads of the team and admins: what all of it start with."""
    profile(principal, team, name)
    if not steers_profiles(principal, team):
        message = f"Only a lead of {team} or an admin publishes and removes its profiles: ask one."
        raise Forbidden(message)
    may_submit(principal)


def drop_profile(principal: Principal, team: str, name: str) -> None:
    """As who publishes."""
    put_profile(principal, team, name)


def steers_profiles(principal: Principal, team: str) -> bool:
    """Whether somebody publishes and removes what this team starts with."""
    leads = principal.admin or TeamName(team) in principal.leads
    return leads and is_person(principal)


def no_profile(team: str, name: str) -> str:
    """The answer for one that is not there, or not theirs to see."""
    return f"{team} has no profile {name!r}, or it is not yours to see: `gpucommons profile list` lists yours."
