"""Rules about schedules; who sees and steers one is who sees and steers its jobs."""

from __future__ import annotations

from gpucommons.scheduler.errors import Forbidden, NotFound
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.schedules.schedule import Schedule
from gpucommons.scheduler.service.authorization.sight import may_submit, read, sees, steers


def put_schedule(principal: Principal, owner: str) -> None:
    """People for themselves alone: its jobs run with their owner's account and files."""
    may_submit(principal)
    if owner != principal.name:
        message = f"{principal.name} may not write schedules of {owner}: only {owner} may."
        raise Forbidden(message)


def schedules(principal: Principal) -> None:
    """Readers; each sees what they see of jobs."""
    read(principal)


def schedule(principal: Principal, found: Schedule) -> None:
    """Owner, team, lead, admin; to others it is not there."""
    read(principal)
    if not sees(principal, found.team, found.owner):
        raise NotFound(no_schedule(found.owner, found.name))


def suspend_schedule(principal: Principal, found: Schedule) -> None:
    """Owner, lead, admin."""
    _steer(principal, found, "suspend")


def resume_schedule(principal: Principal, found: Schedule) -> None:
    """Owner, lead, admin."""
    _steer(principal, found, "resume")


def drop_schedule(principal: Principal, found: Schedule) -> None:
    """Owner, lead, admin."""
    _steer(principal, found, "remove")


def no_schedule(owner: str, name: str) -> str:
    """The answer for one that is not there, or not theirs to see."""
    return f"There is no schedule {name!r} of {owner}, or it is not yours to see. Another's is OWNER/NAME."


def _steer(principal: Principal, found: Schedule, what: str) -> None:
    schedule(principal, found)
    if not steers(principal, found.team, found.owner):
        message = (
            f"The schedule {found.name} belongs to {found.owner}: only its owner, a lead of"
            f" {found.team} or an admin may {what} it."
        )
        raise Forbidden(message)
    may_submit(principal)
