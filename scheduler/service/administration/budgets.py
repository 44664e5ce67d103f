"""How much of its month's budget each team has used: from the ledger and the prices, nothing counted twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal

from gpucommons.scheduler import amount_words, models
from gpucommons.scheduler.core.model.intents import SetBudget
from gpucommons.scheduler.core.model.price_and_budget import Budget
from gpucommons.scheduler.core.model.resources import Team
from gpucommons.scheduler.core.model.types import TeamName
from gpucommons.scheduler.intake import budget_of
from gpucommons.scheduler.money import from_micro
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization, costs
from gpucommons.scheduler.service.configuration import budget_model
from gpucommons.scheduler.service.costs import Cost
from gpucommons.scheduler.service.lookup import check_team
from gpucommons.scheduler.service.service import Pending, Service, decision

_HOUR_MS, _MILLI = 3_600_000, 1000
#: From so many per cent on it is said.
NEAR, FULL = 80, 100
State = Literal["none", "ok", "near", "full"]


def budgets(service: Service, principal: Principal) -> models.BudgetList:
    """Of the caller's own teams, or of all for admins; the most used first."""
    authorization.history.budgets(principal)
    seen = authorization.history.report_teams(principal)
    found = [one for one in states(service, seen) if seen is None or one.team in seen]
    ordered = sorted(found, key=lambda one: (-(one.percent or -1), one.team))
    return models.BudgetList(budgets=ordered, now_ms=service.now_ms())


def set_budget(
    service: Service, principal: Principal, team: str, change: models.BudgetChange
) -> Pending[models.BudgetView]:
    """Give a team a budget, or take it away."""
    authorization.cluster.set_budget(principal)
    name = TeamName(team)
    check_team(service, team)
    found = service.loop.cluster.teams[name]
    wanted = None if change.budget is None else budget_of(change.budget)
    # It may be used up already, and holds at once: a minute is enough to borrow for days.
    used_up = spent(service, {name: replace(found, budget=wanted)}).get(name, "")
    intent = service.ask(principal, SetBudget(team=name, budget=wanted, spent=used_up))

    def answer() -> models.BudgetView:
        return next(one for one in states(service, frozenset({name})) if one.team == name)

    return decision(service, intent, lambda _: answer())


def states(
    service: Service,
    of: frozenset[TeamName] | None = None,
    *,
    teams: Mapping[TeamName, Team] | None = None,
) -> list[models.BudgetView]:
    """All teams' budgets in this month, as far as minutes are written; or those of teams as they may be."""
    cluster, now_ms = service.loop.cluster, service.now_ms()
    start = datetime.fromtimestamp(now_ms / 1000, UTC).replace(
        day=1, hour=0, minute=0, second=0, microsecond=0
    )
    held: dict[TeamName, int] = {}
    cost: dict[TeamName, Cost] = {}
    pools = cluster.pools
    for from_ms, to_ms in costs.spans(pools.values(), int(start.timestamp() * 1000), now_ms + 1):
        found = service.held_so_far.between(service.store, from_ms, to_ms, now_ms)
        for (team, pool), amount in found.items():
            held[team] = held.get(team, 0) + amount
            cost[team] = cost.get(team, Cost()) + costs.of_held(pools.get(pool), amount, from_ms)
    currency = costs.currency_of(pools.values())
    return [
        _view(team, held.get(team.name, 0), cost.get(team.name, Cost()), currency, start)
        for team in (cluster.teams if teams is None else teams).values()
        if of is None or team.name in of
    ]


def spent(service: Service, teams: Mapping[TeamName, Team] | None = None) -> dict[TeamName, str]:
    """Whose budget is used up, with the sentence that their jobs get to read."""
    found = states(service, teams=teams)
    return {TeamName(one.team): one.text for one in found if one.state == "full"}


def _view(
    team: Team, held_milli_gpu_ms: int, cost: Cost, currency: str, start: datetime
) -> models.BudgetView:
    hours = held_milli_gpu_ms / _HOUR_MS / _MILLI
    money = from_micro(cost.micro) if currency else None
    percent = None if team.budget is None else _percent(team.budget, cost.micro, held_milli_gpu_ms)
    return models.BudgetView(
        team=team.name,
        budget=budget_model(team.budget),
        month=start.strftime("%Y-%m"),
        spent_money=money,
        spent_gpu_hours=round(hours, 3),
        currency=currency,
        percent=percent,
        state=_state(percent),
        text=_text(team, hours, money, currency, start),
        unpriced_gpu_hours=round(cost.unpriced / _HOUR_MS / _MILLI, 3) if currency else 0.0,
    )


def _percent(budget: Budget, micro: int, held_milli_gpu_ms: int) -> int:
    if budget.money_micro is not None:
        return 100 * micro // budget.money_micro
    return 100 * held_milli_gpu_ms // ((budget.milli_gpu_h or 1) * _HOUR_MS)


def _state(percent: int | None) -> State:
    if percent is None:
        return "none"
    if percent >= FULL:
        return "full"
    return "near" if percent >= NEAR else "ok"


def _text(team: Team, hours: float, money: float | None, currency: str, start: datetime) -> str:
    """Of one that is used up without what changes by the minute: its jobs carry it as their reason."""
    budget, month = team.budget, start.strftime("%B")
    if budget is None:
        return f"{team.name} has no budget."
    if budget.money_micro is not None:
        limit, used = from_micro(budget.money_micro), money or 0.0
        whole, said = f"{limit:,.2f} {currency}".strip(), f"{used:,.2f}"
        if not currency:
            return f"{team.name} has a budget of {whole} for {month}, but no pool has a price."
    else:
        limit, used = (budget.milli_gpu_h or 0) / _MILLI, hours
        whole, said = f"{limit:,g} GPU-hours", amount_words.hours(used)
    if limit and used >= limit:
        return f"{team.name} has used up its {month} budget of {whole}."
    share = int(100 * used / limit) if limit else 0
    return f"{team.name} has used {share} % of its {month} budget: {said} of {whole}."
