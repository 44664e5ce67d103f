"""Rules about what happened."""

from __future__ import annotations

from gpucommons.scheduler.core.model.types import TeamName
from gpucommons.scheduler.errors import Forbidden
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service.authorization.sight import is_person, read
from gpucommons.scheduler.store.base import EventSight


def events(principal: Principal) -> None:
    """Readers; only events of their own teams."""
    read(principal)


def event_sight(principal: Principal) -> EventSight | None:
    """Admins see all (None); others what concerns their teams or what they did themselves."""
    if principal.admin:
        return None
    return EventSight(teams=principal.sees, by=principal.name if is_person(principal) else None)


def report_teams(principal: Principal) -> frozenset[TeamName] | None:
    """Whose rows of a report somebody sees; None = all teams'."""
    return None if principal.admin else principal.sees


def report(principal: Principal) -> None:
    """Readers; only rows of their own teams."""
    read(principal)


def utilisation(principal: Principal) -> None:
    """Admins, and leads for their teams: day by day it says who worked when."""
    read(principal)
    if not (principal.admin or principal.leads):
        message = "Only admins and leads of teams see how GPUs were used over time."
        raise Forbidden(message)


def utilisation_teams(principal: Principal) -> frozenset[TeamName] | None:
    """Whose use over time somebody sees; None = all teams'."""
    return None if principal.admin else principal.leads


def budgets(principal: Principal) -> None:
    """Readers; only of their own teams."""
    read(principal)


def calibration(principal: Principal) -> None:
    """Readers: it counts all teams and names nobody."""
    read(principal)
