"""Rules about schedules; who sees and steers one is who sees and steers its jobs."""

from __future__ import annotations

from gpucommons.scheduler.errors import Forbidden, NotFound
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.schedules.schedule import Schedule
from gpucommons.scheduler.service.authorization.sight import (
    may_submit,
    own_name,
    read,
    sees,
    steers,
)


def put_schedule(principal: Principal, owner: str) -> None:
    """People for themselves alone: its jobs run with their owner's account and files."""
    may_submit(principal)
    if not may_write_schedule(principal, owner):
        message = f"{principal.name} may not write schedules of {owner}: only {owner} may."
        raise Forbidden(message)


def may_write_schedule(principal: Principal, owner: str) -> bool:
    """Whether somebody writes, and starts, schedules of this owner."""
    return owner == own_name(principal)


def schedules(principal: Principal) -> None:
    """Readers; each sees what they see of jobs."""
    read(principal)


def schedule_times(principal: Principal) -> None:
    """Readers: the calendar is nobody's."""
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
    """Owner, lead, admin; what a lead or admin suspended, its owner does not lift."""
    _steer(principal, found, "resume")
    _check_held(principal, found, "resume")


def drop_schedule(principal: Principal, found: Schedule) -> None:
    """Owner, lead, admin; its owner not while others have suspended it, or would write it anew."""
    _steer(principal, found, "remove")
    _check_held(principal, found, "remove")


def run_schedule(principal: Principal, found: Schedule) -> None:
    """Its owner alone: the job runs with their account and files."""
    schedule(principal, found)
    if not may_write_schedule(principal, found.owner):
        message = (
            f"The schedule {found.name} belongs to {found.owner}: only they start a run of it."
        )
        raise Forbidden(message)
    may_submit(principal)
    _check_held(principal, found, "start")


def post_metric(principal: Principal, found: Schedule) -> None:
    """Its owner alone, as of a run: what falls starts a job with their account and files."""
    schedule(principal, found)
    if not may_write_schedule(principal, found.owner):
        message = (
            f"The schedule {found.name} belongs to {found.owner}: only they post metrics to it."
        )
        raise Forbidden(message)
    may_submit(principal)


def promote_schedule(principal: Principal, found: Schedule) -> None:
    """Owner, lead, admin: it starts nothing."""
    _steer(principal, found, "promote a model of")


def no_schedule(owner: str, name: str) -> str:
    """The answer for one that is not there, or not theirs to see."""
    return f"There is no schedule {name!r} of {owner}, or it is not yours to see. Another's is OWNER/NAME."


def _check_held(principal: Principal, found: Schedule, what: str) -> None:
    is_above = principal.admin or found.team in principal.leads
    if found.held and (found.owner == principal.name or not is_above):
        message = (
            f"The schedule {found.name} was suspended by a lead of {found.team} or an admin, and is"
            f" not its owner's to {what} until they lift that: ask them."
        )
        raise Forbidden(message)


def _steer(principal: Principal, found: Schedule, what: str) -> None:
    schedule(principal, found)
    if not steers(principal, found.team, found.owner):
        message = (
            f"The schedule {found.name} belongs to {found.owner}: only its owner, a lead of"
            f" {found.team} or an admin may {what} it."
        )
        raise Forbidden(message)
    may_submit(principal)
