"""What a submit says of its team's budget."""

from __future__ import annotations

from gpucommons.scheduler.core.model.price_and_budget import BudgetPolicy
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import TeamName

_RULES = {
    BudgetPolicy.WARN: "By its policy (warn) its jobs start all the same.",
    BudgetPolicy.NO_BORROW: "By its policy (no-borrow) its jobs run inside its quota alone.",
    BudgetPolicy.NO_NEW_JOBS: "By its policy (no-new-jobs) none of its jobs starts until there is budget again.",
}


def budget_warning(cluster: Cluster, team: str) -> str | None:
    """The budget is used up, and what follows; None while there is some left."""
    found = cluster.teams.get(TeamName(team))
    if found is None or found.budget is None or not found.budget_spent:
        return None
    return f"{found.budget_spent} {_RULES[found.budget.at_full]}"
