"""What several rules share: who sees a workload, who may steer it, who is what."""

from __future__ import annotations

from gpucommons.scheduler.core.model.types import Kind, TeamName, UserName, Workload
from gpucommons.scheduler.errors import Forbidden, UnknownWorkload
from gpucommons.scheduler.principal import Principal, PrincipalKind, Sight

_PEOPLE = (PrincipalKind.USER, PrincipalKind.LOCAL)


def is_person(principal: Principal) -> bool:
    """A user with a token, or a process of this machine."""
    return principal.kind in _PEOPLE


def own_name(principal: Principal) -> UserName | None:
    """Whose own things somebody's are; None for services."""
    return principal.name if is_person(principal) else None


def of(principal: Principal) -> Sight:
    """Whose schedules, pipelines and sweeps somebody sees."""
    return Sight(teams=None if principal.admin else principal.sees, owner=own_name(principal))


def is_hub(principal: Principal) -> bool:
    """The hub's spawner, or another service that may deal with leases."""
    return principal.kind is PrincipalKind.HUB_SERVICE and principal.holds("lease")


def is_culler(principal: Principal) -> bool:
    """The idle culler."""
    return principal.kind is PrincipalKind.CULLER and principal.holds("lease")


def serves_notebooks(principal: Principal) -> bool:
    """The hub and the culler: they deal with every notebook and no job."""
    return is_hub(principal) or is_culler(principal)


def is_job(workload: Workload) -> bool:
    """Jobs and leases are looked up by different calls."""
    return workload.spec.kind is not Kind.NOTEBOOK


def read(principal: Principal) -> None:
    """Whoever has a right of ours, but attempts."""
    if principal.kind is PrincipalKind.ATTEMPT:
        message = "An attempt's token reports progress and checkpoints, nothing else."
        raise Forbidden(message)
    if not (principal.holds("read") or serves_notebooks(principal)):
        message = (
            f"The token of {principal.name} may not read here: it needs the scope"
            " custom:gpucommons:read."
        )
        raise Forbidden(message)


def must_be_admin(principal: Principal, what: str) -> None:
    """Admins alone."""
    if not principal.admin:
        message = f"Only admins may {what}: ask one, or take a token with custom:gpucommons:admin."
        raise Forbidden(message)


def may_submit(principal: Principal) -> None:
    """People with a submit scope."""
    if principal.kind not in _PEOPLE:
        message = f"{principal.name} is a {principal.kind}: only people submit jobs."
        raise Forbidden(message)
    if not principal.holds("submit"):
        message = (
            f"The token of {principal.name} may not submit: it needs the scope"
            " custom:gpucommons:submit."
        )
        raise Forbidden(message)


def may_submit_for(principal: Principal, user: str | None) -> None:
    """People for themselves; for others only a service trusted with all, or this machine's root.

    A hub's admin is not among them: a job runs with its owner's account and files.
    """
    if user is None or (user == principal.name and is_person(principal)):
        may_submit(principal)
        return
    trusted = principal.kind is PrincipalKind.HUB_SERVICE or (
        principal.kind is PrincipalKind.LOCAL and principal.admin
    )
    if not (trusted and principal.holds("submit", user=user)):
        message = (
            f"{principal.name} may not submit for {user}: only a service with the scope"
            " custom:gpucommons:submit for all users may."
        )
        raise Forbidden(message)


def sees(principal: Principal, team: TeamName, owner: str) -> bool:
    """Whether somebody sees a workload of this team and owner in full."""
    if principal.admin:
        return True
    return team in principal.sees or (owner == principal.name and principal.kind in _PEOPLE)


def sees_lease(principal: Principal, workload: Workload) -> bool:
    """Whether somebody sees this lease in full: as any workload, and the hub and the culler all."""
    seen = sees(principal, workload.spec.team, workload.spec.owner)
    return seen or serves_notebooks(principal)


def sees_options(principal: Principal, workload: Workload) -> bool:
    """Whether somebody sees what was chosen with a ticket, word for word; it may hold anything."""
    own = workload.spec.owner == principal.name and is_person(principal)
    return own or is_hub(principal)


def must_see(principal: Principal, workload: Workload) -> None:
    """Own, of an own or led team, or admin; else it does not exist."""
    read(principal)
    if is_job(workload):
        seen = sees(principal, workload.spec.team, workload.spec.owner)
    else:
        seen = sees_lease(principal, workload)
    if not seen:
        raise UnknownWorkload


def steers(principal: Principal, team: TeamName, owner: str) -> bool:
    """Whether somebody may stop or change a workload of this team and owner."""
    if principal.admin or team in principal.leads:
        return True
    return owner == principal.name and principal.kind in _PEOPLE


def must_steer(principal: Principal, workload: Workload, what: str) -> None:
    """Owner, lead, admin; the token must be allowed to write."""
    must_see(principal, workload)
    if not steers(principal, workload.spec.team, workload.spec.owner):
        message = (
            f"{workload.spec.name} belongs to {workload.spec.owner}: only its owner, a lead of"
            f" {workload.spec.team} or an admin may {what} it."
        )
        raise Forbidden(message)
    if not principal.holds("submit"):
        message = (
            f"The token of {principal.name} may only read: to {what} it, take one with the scope"
            " custom:gpucommons:submit."
        )
        raise Forbidden(message)
