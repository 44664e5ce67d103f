"""What teams may use in a month, and whose is used up: that is noted from outside, as the ledger is no part of the core."""

from __future__ import annotations

from dataclasses import replace

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.events.known import known_team
from gpucommons.scheduler.core.events.settings import audit
from gpucommons.scheduler.core.model.intents import NoteBudgets, SetBudget
from gpucommons.scheduler.core.model.resources import Team


def set_budget(cycle: CycleState, action: SetBudget, by: str) -> None:
    """Give a team a budget, or take it away; whether it is used up comes with it."""
    team = known_team(cycle, action.team)
    changed = replace(team, budget=action.budget, budget_spent=action.spent)
    change = audit.of_team(team, changed)
    cycle.rules.teams = {**cycle.teams, team.name: changed}
    audit.tell(cycle, "team", team.name, change, by=by, team=team.name)
    _tell_news(cycle, team, changed, by)


def note_budgets(cycle: CycleState, action: NoteBudgets, by: str) -> None:
    """Whose budget is used up now; their settings stay as they are."""
    changed = {
        name: replace(team, budget_spent=spent)
        for name, team in cycle.teams.items()
        if (spent := _noted(team, action)) != team.budget_spent
    }
    if not changed:
        return
    before = cycle.teams
    cycle.rules.teams = {**before, **changed}
    for name, team in sorted(changed.items()):
        _tell_news(cycle, before[name], team, by)


def _tell_news(cycle: CycleState, before: Team, team: Team, by: str) -> None:
    if team.budget_spent != before.budget_spent:
        text = team.budget_spent or f"{team.name} has budget left."
        cycle.tell("budget", text, by=by, team=team.name)


def with_its_facts(cycle: CycleState, team: Team) -> Team:
    """What was noted of a team that keeps a budget does not change by being written anew."""
    known = cycle.teams.get(team.name)
    spent = "" if known is None or team.budget is None else known.budget_spent
    return replace(team, budget_spent=spent)


def _noted(team: Team, action: NoteBudgets) -> str:
    """The budget may have been taken away since it was looked at."""
    return "" if team.budget is None else action.spent.get(team.name, "")
