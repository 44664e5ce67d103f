"""Rules about what a running attempt reports."""

from __future__ import annotations

from gpucommons.scheduler.core.model.types import AttemptId
from gpucommons.scheduler.errors import Forbidden
from gpucommons.scheduler.principal import Principal, PrincipalKind


def _report(principal: Principal) -> AttemptId:
    if principal.kind is not PrincipalKind.ATTEMPT or principal.attempt_id is None:
        message = "This is for a running attempt alone, with its own token (GPUCOMMONS_TOKEN)."
        raise Forbidden(message)
    return principal.attempt_id


def report_progress(principal: Principal) -> AttemptId:
    """The attempt itself."""
    return _report(principal)


def report_trainer_status(principal: Principal) -> AttemptId:
    """The attempt itself."""
    return _report(principal)


def report_curve(principal: Principal) -> AttemptId:
    """The attempt itself."""
    return _report(principal)


def report_checkpoint(principal: Principal) -> AttemptId:
    """The attempt itself."""
    return _report(principal)


def report_finished(principal: Principal) -> AttemptId:
    """The attempt itself."""
    return _report(principal)


def attempt_inputs(principal: Principal) -> AttemptId:
    """The attempt itself."""
    return _report(principal)


def attempt_snapshot(principal: Principal) -> AttemptId:
    """The attempt itself, and only its own job's."""
    return _report(principal)


def attempt_uploads(principal: Principal) -> AttemptId:
    """The attempt itself, below its own folder."""
    return _report(principal)


def report_kept(principal: Principal) -> AttemptId:
    """The attempt itself."""
    return _report(principal)


def report_tree(principal: Principal) -> AttemptId:
    """The attempt itself."""
    return _report(principal)


def attempt_saving(principal: Principal) -> AttemptId:
    """The attempt itself."""
    return _report(principal)


def attempt_orders(principal: Principal) -> AttemptId:
    """The attempt itself."""
    return _report(principal)
