"""Calls about what is planned to be used, and what became of it: plans and budgets."""

from __future__ import annotations

from gpucommons.scheduler import models
from gpucommons.scheduler.client.call import Call, path_of


def job_plan(ref: str) -> Call[models.PlanRecord]:
    """What was said of a job before it was submitted, beside what came."""
    return Call(method="GET", path=path_of("jobs", ref, "plan"), answer=models.PlanRecord)


def curve_outlook(ref: str, *, metric: str, goal: float) -> Call[models.CurveOutlook]:
    """When a job's metric likely reaches a goal."""
    return Call(
        method="GET",
        path=path_of("jobs", ref, "outlook"),
        answer=models.CurveOutlook,
        query={"metric": metric, "goal": repr(goal)},
    )


def data_advice(ref: str) -> Call[models.DataAdvice]:
    """Whether a job waits for its data, and what would help."""
    return Call(method="GET", path=path_of("jobs", ref, "data"), answer=models.DataAdvice)


def choose_loader(ref: str, wanted: models.LoaderSettings) -> Call[models.JobView]:
    """Set how a job loads its data from its next attempt on."""
    path = path_of("jobs", ref, "data")
    return Call(method="POST", path=path, answer=models.JobView, body=wanted)


def waiting_together() -> Call[models.TogetherView]:
    """With how many GPUs the caller's own waiting jobs are done soonest, all of them together."""
    return Call(method="GET", path=path_of("advise", "together"), answer=models.TogetherView)


def calibration(*, days: int = 90, sample: bool = False) -> Call[models.CalibrationView]:
    """How often windows and plans were right."""
    return Call(
        method="GET",
        path=path_of("calibration"),
        answer=models.CalibrationView,
        query={"days": str(days)} | ({"sample": "true"} if sample else {}),
    )


def budgets() -> Call[models.BudgetList]:
    """How much of its month's budget each of the caller's teams has used."""
    return Call(method="GET", path=path_of("budgets"), answer=models.BudgetList)


def set_budget(team: str, budget: models.BudgetModel | None) -> Call[models.BudgetView]:
    """Give a team a budget, or take it away (admin)."""
    return Call(
        method="PUT",
        path=path_of("budgets", team),
        answer=models.BudgetView,
        body=models.BudgetChange(budget=budget),
    )
