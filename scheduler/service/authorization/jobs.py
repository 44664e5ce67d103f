"""Rules about jobs."""

from __future__ import annotations

from gpucommons.scheduler.core.types import Workload
from gpucommons.scheduler.service.authorization.sight import may_submit, must_see, must_steer, read
from gpucommons.scheduler.service.principal import Principal


def put_snapshot(principal: Principal) -> None:
    """Whoever may submit."""
    may_submit(principal)


def submit(principal: Principal) -> None:
    """People with a submit scope; the intake checks the team."""
    may_submit(principal)


def quote_job(principal: Principal) -> None:
    """Whoever may submit."""
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


def again(principal: Principal, workload: Workload) -> None:
    """Whoever sees it and may submit: the new job is their own."""
    must_see(principal, workload)
    may_submit(principal)


def log(principal: Principal, workload: Workload) -> None:
    """Owner, team, lead, admin."""
    must_see(principal, workload)


def curve(principal: Principal, workload: Workload) -> None:
    """Owner, team, lead, admin."""
    must_see(principal, workload)
