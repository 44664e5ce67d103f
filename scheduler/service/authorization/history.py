"""Rules about what happened."""

from __future__ import annotations

from gpucommons.scheduler.core.state import Event
from gpucommons.scheduler.service.authorization.sight import is_person, read
from gpucommons.scheduler.service.principal import Principal


def events(principal: Principal) -> None:
    """Readers; only events of their own teams."""
    read(principal)


def sees_event(principal: Principal, event: Event) -> bool:
    """Admins see all; others what concerns their teams or what they did themselves."""
    if principal.admin:
        return True
    if event.team is not None:
        return event.team in principal.sees
    return event.by == principal.name and is_person(principal)


def report(principal: Principal) -> None:
    """Readers; only rows of their own teams."""
    read(principal)
