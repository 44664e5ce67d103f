"""One rule per use case, named like it, pure: who may do what to what.

Every rule returns nothing or raises a sentence. What somebody may not even know of is reported as
missing (404), what is visible but not theirs to steer as forbidden (403).
"""

from __future__ import annotations

from gpucommons.scheduler.core.state import Event
from gpucommons.scheduler.core.types import AttemptId, Kind, State, TeamName, Workload
from gpucommons.scheduler.errors import Forbidden, UnknownWorkload
from gpucommons.scheduler.service.principal import Principal, PrincipalKind

_PEOPLE = (PrincipalKind.USER, PrincipalKind.LOCAL)
#: Reasons with which an owner may end a lease that holds no running server.
_OWN_ENDS = frozenset({"left", "stopped"})


# --- who, what exists ------------------------------------------------------------------------


def read(principal: Principal) -> None:
    """Whoever has a right of ours, but attempts."""
    if principal.kind is PrincipalKind.ATTEMPT:
        message = "An attempt's token reports progress and checkpoints, nothing else."
        raise Forbidden(message)
    if not (principal.holds("read") or _serves_notebooks(principal)):
        message = (
            f"The token of {principal.name} may not read here: it needs the scope"
            " custom:gpucommons:read."
        )
        raise Forbidden(message)


def _admin(principal: Principal, what: str) -> None:
    if not principal.admin:
        message = f"Only admins may {what}: ask one, or take a token with custom:gpucommons:admin."
        raise Forbidden(message)


def whoami(principal: Principal) -> None:
    """Everyone with a right of ours."""
    read(principal)


def pools(principal: Principal) -> None:
    """Readers."""
    read(principal)


def nodes(principal: Principal) -> None:
    """Readers; the view hides what is not theirs."""
    read(principal)


def teams(principal: Principal) -> None:
    """Readers; the view hides what is not theirs."""
    read(principal)


def set_node_state(principal: Principal) -> None:
    """Admins."""
    _admin(principal, "cordon or fence nodes")


def put_config(principal: Principal) -> None:
    """Admins."""
    _admin(principal, "change pools, teams and policies")


def get_config(principal: Principal) -> None:
    """Admins."""
    _admin(principal, "read the whole configuration")


def set_quotas(principal: Principal) -> None:
    """Admins."""
    _admin(principal, "set quotas")


def metrics(principal: Principal) -> None:
    """Admins, and whoever may read the hub's metrics."""
    if not (principal.admin or principal.reads_metrics):
        message = "Metrics are for admins and tokens with the scope read:metrics."
        raise Forbidden(message)


# --- jobs ------------------------------------------------------------------------------------


def _submit(principal: Principal) -> None:
    if principal.kind not in _PEOPLE:
        message = f"{principal.name} is a {principal.kind}: only people submit jobs."
        raise Forbidden(message)
    if not principal.holds("submit"):
        message = (
            f"The token of {principal.name} may not submit: it needs the scope"
            " custom:gpucommons:submit."
        )
        raise Forbidden(message)


def _see(principal: Principal, workload: Workload) -> None:
    """Own, of an own or led team, or admin; else it does not exist."""
    read(principal)
    if is_job(workload):
        seen = sees(principal, workload.spec.team, workload.spec.owner)
    else:
        seen = sees_lease(principal, workload)
    if not seen:
        raise UnknownWorkload


def sees_lease(principal: Principal, workload: Workload) -> bool:
    """Whether somebody sees this lease in full: as any workload, and the hub and the culler all."""
    seen = sees(principal, workload.spec.team, workload.spec.owner)
    return seen or _serves_notebooks(principal)


def _serves_notebooks(principal: Principal) -> bool:
    """The hub and the culler: they deal with every notebook and no job."""
    return _is_hub(principal) or _is_culler(principal)


def sees(principal: Principal, team: TeamName, owner: str) -> bool:
    """Whether somebody sees a workload of this team and owner in full."""
    if principal.admin:
        return True
    return team in principal.sees or (owner == principal.name and principal.kind in _PEOPLE)


def steers(principal: Principal, team: TeamName, owner: str) -> bool:
    """Whether somebody may stop or change a workload of this team and owner."""
    if principal.admin or team in principal.leads:
        return True
    return owner == principal.name and principal.kind in _PEOPLE


def _steer(principal: Principal, workload: Workload, what: str) -> None:
    _see(principal, workload)
    if not steers(principal, workload.spec.team, workload.spec.owner):
        message = (
            f"{workload.spec.name} belongs to {workload.spec.owner}: only its owner, a lead of"
            f" {workload.spec.team} or an admin may {what} it."
        )
        raise Forbidden(message)
    if not (principal.holds("submit") or principal.admin or workload.spec.team in principal.leads):
        message = (
            f"The token of {principal.name} may only read: to {what} it, take one with the scope"
            " custom:gpucommons:submit."
        )
        raise Forbidden(message)


def put_snapshot(principal: Principal) -> None:
    """Whoever may submit."""
    _submit(principal)


def submit(principal: Principal) -> None:
    """People with a submit scope; the intake checks the team."""
    _submit(principal)


def quote_job(principal: Principal) -> None:
    """Whoever may submit."""
    _submit(principal)


def jobs(principal: Principal) -> None:
    """Readers; only own teams' jobs in full."""
    read(principal)


def job(principal: Principal, workload: Workload) -> None:
    """Owner, team, lead, admin."""
    _see(principal, workload)


def cancel(principal: Principal, workload: Workload) -> None:
    """Owner, lead, admin."""
    _steer(principal, workload, "cancel")


def pause(principal: Principal, workload: Workload) -> None:
    """Owner, lead, admin."""
    _steer(principal, workload, "pause")


def resume(principal: Principal, workload: Workload) -> None:
    """Owner, lead, admin."""
    _steer(principal, workload, "resume")


def again(principal: Principal, workload: Workload) -> None:
    """Whoever sees it and may submit: the new job is their own."""
    _see(principal, workload)
    _submit(principal)


def log(principal: Principal, workload: Workload) -> None:
    """Owner, team, lead, admin."""
    _see(principal, workload)


def curve(principal: Principal, workload: Workload) -> None:
    """Owner, team, lead, admin."""
    _see(principal, workload)


# --- a running attempt -----------------------------------------------------------------------


def _report(principal: Principal) -> AttemptId:
    if principal.kind is not PrincipalKind.ATTEMPT or principal.attempt_id is None:
        message = "Only a running attempt reports progress, with its own token (GPUCOMMONS_TOKEN)."
        raise Forbidden(message)
    return principal.attempt_id


def report_progress(principal: Principal) -> AttemptId:
    """The attempt itself."""
    return _report(principal)


def report_checkpoint(principal: Principal) -> AttemptId:
    """The attempt itself."""
    return _report(principal)


# --- notebooks -------------------------------------------------------------------------------


def is_person(principal: Principal) -> bool:
    """A user with a token, or a process of this machine."""
    return principal.kind in _PEOPLE


def _is_hub(principal: Principal) -> bool:
    return principal.kind is PrincipalKind.HUB_SERVICE and principal.holds("lease")


def _is_culler(principal: Principal) -> bool:
    return principal.kind is PrincipalKind.CULLER and principal.holds("lease")


def offers(principal: Principal, user: str) -> None:
    """Users for themselves; the hub and admins for anybody."""
    read(principal)
    if not (_is_hub(principal) or principal.admin or principal.name == user):
        message = f"Offers are personal: {principal.name} may not ask for those of {user}."
        raise Forbidden(message)


def acquire(principal: Principal) -> None:
    """The hub."""
    if not _is_hub(principal):
        message = (
            "Only the hub's spawner takes a slice at once. Start the notebook from the hub, or"
            " take a ticket."
        )
        raise Forbidden(message)


def wait_in_line(principal: Principal, user: str) -> None:
    """Users for themselves; the hub for anybody."""
    if _is_hub(principal):
        return
    _submit(principal)
    if principal.name != user:
        message = f"A ticket is personal: {principal.name} cannot wait for {user}."
        raise Forbidden(message)


def leases(principal: Principal) -> None:
    """Readers; those of other teams without names."""
    read(principal)


def lease(principal: Principal, workload: Workload) -> None:
    """Owner, team, lead, admin, hub, culler."""
    _see(principal, workload)


def my_lease(principal: Principal) -> None:
    """People."""
    read(principal)
    if principal.kind not in _PEOPLE:
        message = f"{principal.name} is a {principal.kind}: only people have a lease of their own."
        raise Forbidden(message)


def started(principal: Principal) -> None:
    """The hub."""
    if not _is_hub(principal):
        message = "Only the hub says that a notebook server runs."
        raise Forbidden(message)


def end_lease(principal: Principal, workload: Workload, why: str) -> None:
    """The hub and the culler; the owner as long as no server runs on the slice."""
    if _is_hub(principal) or _is_culler(principal):
        return
    _steer(principal, workload, "end")
    if workload.state in (State.ACTIVE, State.WARNED) or why not in _OWN_ENDS:
        message = "A running notebook ends by stopping its server in the hub."
        raise Forbidden(message)


def keep(principal: Principal, workload: Workload) -> None:
    """Owner, admin."""
    _own(principal, workload, "keep")


def drop(principal: Principal, workload: Workload) -> None:
    """Owner, culler, admin."""
    if not _is_culler(principal):
        _own(principal, workload, "drop")


def _own(principal: Principal, workload: Workload, what: str) -> None:
    _see(principal, workload)
    own = workload.spec.owner == principal.name and principal.kind in _PEOPLE
    if not (principal.admin or (own and principal.holds("submit"))):
        message = f"Only its owner or an admin may {what} this notebook's GPU."
        raise Forbidden(message)


def reclaim(principal: Principal, workload: Workload) -> None:
    """Leads of the team, admins."""
    _see(principal, workload)
    if not (principal.admin or workload.spec.team in principal.leads):
        message = f"Only an admin or a lead of {workload.spec.team} may reclaim a notebook's GPU."
        raise Forbidden(message)


def report_activity(principal: Principal, workload: Workload) -> None:
    """The notebook's own server."""
    _see(principal, workload)
    if workload.spec.owner != principal.name or principal.kind not in _PEOPLE:
        message = "Only a notebook's own server reports its activity."
        raise Forbidden(message)


def activities(principal: Principal) -> None:
    """Culler, admin; leads for their teams."""
    if not (_is_culler(principal) or principal.admin or principal.leads):
        message = "Activities of notebooks are for the culler, admins and leads of teams."
        raise Forbidden(message)
    read(principal)


def sees_activity(principal: Principal, workload: Workload) -> bool:
    """Whether somebody sees what this notebook does."""
    return _is_culler(principal) or principal.admin or workload.spec.team in principal.leads


def activity(principal: Principal, workload: Workload) -> None:
    """Culler, admin; leads for their teams."""
    _see(principal, workload)
    if not sees_activity(principal, workload):
        message = "A notebook's activity is for the culler, admins and leads of its team."
        raise Forbidden(message)


def report_idle(principal: Principal) -> None:
    """The culler."""
    if not _is_culler(principal):
        message = "Only the culler says that a notebook is idle."
        raise Forbidden(message)


# --- history ---------------------------------------------------------------------------------


def events(principal: Principal) -> None:
    """Readers; only events of their own teams."""
    read(principal)


def sees_event(principal: Principal, event: Event) -> bool:
    """Admins see all; others what concerns their teams or what they did themselves."""
    if principal.admin:
        return True
    if event.team is not None:
        return event.team in principal.sees
    return event.by == principal.name and principal.kind in _PEOPLE


def report(principal: Principal) -> None:
    """Readers; only rows of their own teams."""
    read(principal)


def is_job(workload: Workload) -> bool:
    """Jobs and leases have different doors."""
    return workload.spec.kind is not Kind.NOTEBOOK
