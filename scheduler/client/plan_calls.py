"""Calls about what was said before, and what became of it."""

from __future__ import annotations

from gpucommons.scheduler import models
from gpucommons.scheduler.client.call import Call, path_of


def job_plan(ref: str) -> Call[models.PlanRecord]:
    """What was said of a job before it was submitted, beside what came."""
    return Call(method="GET", path=path_of("jobs", ref, "plan"), answer=models.PlanRecord)


def calibration(*, days: int = 90) -> Call[models.CalibrationView]:
    """How often windows and plans were right."""
    return Call(
        method="GET",
        path=path_of("calibration"),
        answer=models.CalibrationView,
        query={"days": str(days)},
    )
