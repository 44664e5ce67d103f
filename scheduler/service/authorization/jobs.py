"""Rules about jobs."""

from __future__ import annotations

from gpucommons.scheduler.core.model.types import Workload
from gpucommons.scheduler.errors import Forbidden
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service.authorization.sight import (
    may_submit,
    may_submit_for,
    must_see,
    must_steer,
    read,
    steers,
)
from gpucommons.scheduler.store.base import Claims


def put_snapshot(principal: Principal) -> None:
    """Whoever may submit."""
    may_submit(principal)


def use_snapshot(claims: Claims, *, shared: bool) -> bool:
    """Who brought its bytes, or has a job of it; within a team that shares, also the others there.

    To everybody else it is not there: a hash is a name, and no key.
    """
    return claims.uploaded or claims.own_job or (shared and claims.team_job)


def submit(principal: Principal, user: str | None = None) -> None:
    """People for themselves, services with a right for all for others; the intake checks the team."""
    may_submit_for(principal, user)


def environments(principal: Principal) -> None:
    """Whoever may submit, their own."""
    may_submit(principal)


def quote_job(principal: Principal, user: str | None = None) -> None:
    """Whoever may submit."""
    may_submit_for(principal, user)


def advise(principal: Principal) -> None:
    """Whoever may submit: plans tell how long their own jobs would wait."""
    may_submit(principal)


def waiting_together(principal: Principal) -> None:
    """Whoever may submit: of their own jobs alone."""
    may_submit(principal)


def jobs(principal: Principal) -> None:
    """Readers; only own teams' jobs in full."""
    read(principal)


def job(principal: Principal, workload: Workload) -> None:
    """Owner, team, lead, admin."""
    must_see(principal, workload)


def why(principal: Principal, workload: Workload) -> None:
    """Owner, team, lead, admin."""
    must_see(principal, workload)


def cancel(principal: Principal, workload: Workload) -> None:
    """Owner, lead, admin."""
    must_steer(principal, workload, "cancel")


def pause(principal: Principal, workload: Workload) -> None:
    """Owner, lead, admin."""
    must_steer(principal, workload, "pause")


def resume(principal: Principal, workload: Workload) -> None:
    """Owner, lead, admin."""
    must_steer(principal, workload, "resume")


def resize_job(principal: Principal, workload: Workload) -> None:
    """Owner, lead, admin."""
    must_steer(principal, workload, "resize")


def again(principal: Principal, workload: Workload) -> None:
    """Whoever sees it and may submit: the new job is their own."""
    must_see(principal, workload)
    may_submit(principal)


def run_files_of(
    principal: Principal, workload: Workload, *, shared: bool, with_key: bool = False
) -> None:
    """Its owner, who steers it, and teammates where snapshots are shared: the files go to the new job.

    Where a key is among them, its owner alone.
    """
    spec = workload.spec
    if with_key and principal.name != spec.owner:
        message = (
            f"{spec.name} has the key of a cluster among its files, which is {spec.owner}'s alone:"
            " begin a cluster in a notebook of your own."
        )
        raise Forbidden(message)
    if not (shared or steers(principal, spec.team, spec.owner)):
        message = (
            f"{spec.name} runs from files of {spec.owner}, which are not shared in {spec.team} (policy"
            f" share_snapshots): ask {spec.owner} to run it again, or a lead or an admin to share."
        )
        raise Forbidden(message)


def resume_from(principal: Principal, workload: Workload, user: str | None = None) -> None:
    """Its owner alone, for themselves: the new job's code reads whatever the old one's wrote."""
    must_see(principal, workload)
    if (user or principal.name) != workload.spec.owner:
        message = (
            f"{workload.spec.name} belongs to {workload.spec.owner}: only their own jobs go on"
            " from what it saved."
        )
        raise Forbidden(message)


def log(principal: Principal, workload: Workload) -> None:
    """Owner, team, lead, admin."""
    must_see(principal, workload)


def curve(principal: Principal, workload: Workload) -> None:
    """Owner, team, lead, admin."""
    must_see(principal, workload)


def curve_outlook(principal: Principal, workload: Workload) -> None:
    """Whoever sees the curve."""
    curve(principal, workload)


def job_use(principal: Principal, workload: Workload) -> None:
    """Owner, team, lead, admin."""
    must_see(principal, workload)


def job_plan(principal: Principal, workload: Workload) -> None:
    """Owner, team, lead, admin."""
    must_see(principal, workload)


def data_advice(principal: Principal, workload: Workload) -> None:
    """Owner, team, lead, admin."""
    must_see(principal, workload)


def choose_loader(principal: Principal, workload: Workload) -> None:
    """Owner, lead, admin."""
    must_steer(principal, workload, "set the loader of")


def results(principal: Principal, workload: Workload) -> None:
    """Owner, lead, admin: they may be whatever the owner's code wrote."""
    must_steer(principal, workload, "fetch the results of")
