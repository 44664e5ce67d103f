"""Every call about sweeps and maps as a pure value."""

from __future__ import annotations

from gpucommons.scheduler import models
from gpucommons.scheduler.client.call import Call, path_of


def submit_sweep(request: models.SweepRequest, *, key: str | None = None) -> Call[models.SweepView]:
    """Submit a sweep or a map; the same key answers with the same one."""
    path = path_of("sweeps")
    return Call(
        method="POST", path=path, answer=models.SweepView, body=request, idempotency_key=key
    )


def sweeps(
    cursor: str | None = None, *, owner: str | None = None, live: bool = False
) -> Call[models.SweepList]:
    """A page of sweeps and maps that the caller may see, newest first; of one owner, or that go on."""
    query = {} if cursor is None else {"cursor": cursor}
    query |= {} if owner is None else {"owner": owner}
    query |= {"live": "true"} if live else {}
    return Call(method="GET", path=path_of("sweeps"), answer=models.SweepList, query=query)


def sweep(ref: str) -> Call[models.SweepView]:
    """One sweep with its trials."""
    return Call(method="GET", path=path_of("sweeps", ref), answer=models.SweepView)


def sweep_figures(ref: str) -> Call[models.SweepFigures]:
    """Its GPUs over time, and which parameters matter."""
    return Call(method="GET", path=path_of("sweeps", ref, "figures"), answer=models.SweepFigures)


def stop_sweep(ref: str) -> Call[models.SweepView]:
    """End it."""
    return Call(method="POST", path=path_of("sweeps", ref, "stop"), answer=models.SweepView)


def leave_out(ref: str, request: models.LeaveOutRequest) -> Call[models.SweepView]:
    """Jobs of a list that are not to run; those that have begun are cancelled."""
    path = path_of("sweeps", ref, "leave-out")
    return Call(method="POST", path=path, answer=models.SweepView, body=request)


def add_to_budget(
    ref: str, more: models.MoreBudgetRequest, *, key: str | None = None
) -> Call[models.SweepView]:
    """Add trials, GPU hours or time; the same key adds once."""
    path = path_of("sweeps", ref, "budget")
    return Call(method="POST", path=path, answer=models.SweepView, body=more, idempotency_key=key)
