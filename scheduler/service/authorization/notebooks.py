"""Rules about notebooks' leases and tickets."""

from __future__ import annotations

from gpucommons.scheduler.core.model.types import State, Workload
from gpucommons.scheduler.errors import Forbidden
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service.authorization.sight import (
    is_culler,
    is_hub,
    is_person,
    may_submit,
    must_see,
    must_steer,
    read,
)

#: Reasons with which an owner may end a lease whose slice no server has taken.
_OWN_ENDS = frozenset({"left", "stopped"})


def offers(principal: Principal, user: str) -> None:
    """Users for themselves; the hub and admins for anybody."""
    read(principal)
    if not (is_hub(principal) or principal.admin or principal.name == user):
        message = f"Offers are personal: {principal.name} may not ask for those of {user}."
        raise Forbidden(message)


def acquire(principal: Principal) -> None:
    """The hub."""
    if not is_hub(principal):
        message = (
            "Only the hub's spawner takes a slice at once. Start the notebook from the hub, or"
            " take a ticket."
        )
        raise Forbidden(message)


def wait_in_line(principal: Principal, user: str) -> None:
    """Users for themselves; the hub for anybody."""
    if is_hub(principal):
        return
    may_submit(principal)
    if principal.name != user:
        message = f"A ticket is personal: {principal.name} cannot wait for {user}."
        raise Forbidden(message)


def leases(principal: Principal) -> None:
    """Readers; those of other teams without names."""
    read(principal)


def lease(principal: Principal, workload: Workload) -> None:
    """Owner, team, lead, admin, hub, culler."""
    must_see(principal, workload)


def my_lease(principal: Principal) -> None:
    """People."""
    read(principal)
    if not is_person(principal):
        message = f"{principal.name} is a {principal.kind}: only people have a lease of their own."
        raise Forbidden(message)


def started(principal: Principal) -> None:
    """The hub."""
    if not is_hub(principal):
        message = "Only the hub says that a notebook server runs."
        raise Forbidden(message)


def end_lease(principal: Principal, workload: Workload, why: str) -> None:
    """The hub and the culler; the owner until a server has taken the slice.

    That a server is gone, only the hub knows: one that is being started may come up all the same.
    """
    if is_hub(principal) or is_culler(principal):
        return
    must_steer(principal, workload, "end")
    taken = workload.state is not State.WAITING and workload.redeem_by_ms is None
    runs = workload.parked is not None and why != "left"
    if taken or runs or why not in _OWN_ENDS:
        message = (
            "A notebook that runs, or is being started, ends by stopping its server in the hub."
        )
        raise Forbidden(message)


def may_word_end(principal: Principal) -> bool:
    """The hub and the culler; what anybody else writes would read as if it were ours."""
    return is_hub(principal) or is_culler(principal)


def why_lease(principal: Principal, workload: Workload) -> None:
    """Owner, team, lead, admin; the hub and the culler."""
    must_see(principal, workload)


def keep(principal: Principal, workload: Workload) -> None:
    """Owner, admin."""
    _own(principal, workload, "keep this notebook's GPU")


def drop(principal: Principal, workload: Workload) -> None:
    """Owner, culler, admin."""
    if not is_culler(principal):
        _own(principal, workload, "drop this notebook's GPU")


def hibernate(principal: Principal, workload: Workload) -> None:
    """Owner, culler, admin."""
    if not is_culler(principal):
        _own(principal, workload, "hibernate this notebook")


def park(principal: Principal, workload: Workload) -> None:
    """Owner, culler, admin."""
    if not is_culler(principal):
        _own(principal, workload, "park this notebook")


def report_parked(principal: Principal, workload: Workload) -> None:
    """The notebook's own server."""
    _own_server(principal, workload, "says that it is parked")


def unpark(principal: Principal, workload: Workload) -> None:
    """Owner, admin."""
    _own(principal, workload, "ask for this notebook's GPU")


def choose_on_idle(principal: Principal, workload: Workload) -> None:
    """Owner, admin."""
    _own(principal, workload, "choose what becomes of this notebook")


def _own(principal: Principal, workload: Workload, what: str) -> None:
    must_see(principal, workload)
    if not (principal.admin or _is_own(principal, workload)):
        message = f"Only its owner or an admin may {what}."
        raise Forbidden(message)


def _own_server(principal: Principal, workload: Workload, what: str) -> None:
    must_see(principal, workload)
    if not _is_own(principal, workload):
        message = f"Only a notebook's own server {what}."
        raise Forbidden(message)


def _is_own(principal: Principal, workload: Workload) -> bool:
    own = workload.spec.owner == principal.name and is_person(principal)
    return own and principal.holds("submit")


def reclaim(principal: Principal, workload: Workload) -> None:
    """Leads of the team, admins."""
    must_see(principal, workload)
    leads = workload.spec.team in principal.leads and principal.holds("submit")
    if not (principal.admin or leads):
        message = f"Only an admin or a lead of {workload.spec.team} may reclaim a notebook's GPU."
        raise Forbidden(message)


def resize(principal: Principal, workload: Workload) -> None:
    """Admins."""
    must_see(principal, workload)
    if not principal.admin:
        message = "Only an admin changes the memory of a notebook's GPU slice."
        raise Forbidden(message)


def report_activity(principal: Principal, workload: Workload) -> None:
    """The notebook's own server."""
    _own_server(principal, workload, "reports its activity")


def report_kept_kernels(principal: Principal, workload: Workload) -> None:
    """The owner's own servers, also the one that comes after it."""
    _own_server(principal, workload, "says what is kept of its kernels")


def activities(principal: Principal) -> None:
    """Culler, admin; leads for their teams."""
    if not (is_culler(principal) or principal.admin or principal.leads):
        message = "Activities of notebooks are for the culler, admins and leads of teams."
        raise Forbidden(message)
    read(principal)


def sees_activity(principal: Principal, workload: Workload) -> bool:
    """Whether somebody sees what this notebook does."""
    return is_culler(principal) or principal.admin or workload.spec.team in principal.leads


def activity(principal: Principal, workload: Workload) -> None:
    """Culler, admin; leads for their teams."""
    must_see(principal, workload)
    if not sees_activity(principal, workload):
        message = "A notebook's activity is for the culler, admins and leads of its team."
        raise Forbidden(message)


def report_idle(principal: Principal) -> None:
    """The culler."""
    if not is_culler(principal):
        message = "Only the culler says that a notebook is idle."
        raise Forbidden(message)
