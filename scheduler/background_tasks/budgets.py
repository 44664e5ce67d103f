"""Tells the core once a minute whose budget is used up: it knows neither ledger nor prices."""

from __future__ import annotations

from gpucommons.scheduler.background_tasks.housekeeping import OPERATOR
from gpucommons.scheduler.core.model.intents import NoteBudgets
from gpucommons.scheduler.service.administration.budgets import spent
from gpucommons.scheduler.service.service import Service

_EVERY_MS = 60_000


class Budgets:
    """One pass after the other, from one thread of the leader."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._due_ms = 0

    def step(self) -> None:
        """Look at the month, if any team has a budget, and say what is news."""
        teams = self._service.loop.cluster.teams.values()
        if not any(team.budget is not None or team.budget_spent for team in teams):
            return
        now_ms = self._service.now_ms()
        if now_ms < self._due_ms:
            return
        self._due_ms = now_ms + _EVERY_MS
        found = spent(self._service)
        if any(team.budget_spent != found.get(team.name, "") for team in teams):
            self._service.ask(OPERATOR, NoteBudgets(spent=found))
