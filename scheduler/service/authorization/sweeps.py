"""Rules about sweeps; who sees and steers one is who sees and steers its jobs."""

from __future__ import annotations

from gpucommons.scheduler.errors import Forbidden, NotFound
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service.authorization.sight import (
    may_submit,
    own_name,
    read,
    sees,
    steers,
)
from gpucommons.scheduler.sweeps.sweep import Sweep


def submit_sweep(principal: Principal) -> None:
    """People for themselves alone: its jobs run with their owner's account and files."""
    may_submit(principal)


def sweeps(principal: Principal) -> None:
    """Readers; each sees what they see of jobs."""
    read(principal)


def sweep(principal: Principal, found: Sweep) -> None:
    """Owner, team, lead, admin; to others it is not there."""
    read(principal)
    if not sees(principal, found.team, found.owner):
        raise NotFound(no_sweep(found.name))


def sweep_figures(principal: Principal, found: Sweep) -> None:
    """Whoever sees the sweep."""
    sweep(principal, found)


def stop_sweep(principal: Principal, found: Sweep) -> None:
    """Owner, lead, admin."""
    _steer(principal, found, "stop it")


def leave_out(principal: Principal, found: Sweep) -> None:
    """Owner, lead, admin."""
    _steer(principal, found, "cancel its jobs")


def add_to_budget(principal: Principal, found: Sweep) -> None:
    """Owner, lead, admin."""
    _steer(principal, found, "add to its budget")


def revive_sweep(principal: Principal, found: Sweep) -> None:
    """Of one that is over, its owner alone: new jobs of theirs start."""
    sweep(principal, found)
    if found.owner != own_name(principal):
        message = (
            f"The sweep {found.name} is over and belongs to {found.owner}: only they let it go on."
        )
        raise Forbidden(message)
    may_submit(principal)


def no_sweep(ref: str) -> str:
    """The answer for one that is not there, or not theirs to see."""
    return f"There is no sweep {ref!r}, or it is not yours to see."


def _steer(principal: Principal, found: Sweep, what: str) -> None:
    sweep(principal, found)
    if not steers(principal, found.team, found.owner):
        message = (
            f"The sweep {found.name} belongs to {found.owner}: only its owner, a lead of {found.team}"
            f" or an admin may {what}."
        )
        raise Forbidden(message)
    may_submit(principal)
