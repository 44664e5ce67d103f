"""Budgets of two teams, as pages get them."""

from __future__ import annotations

from gpucommons.scheduler import models


def a_budget_list(now_ms: int) -> models.BudgetList:
    """One that is nearly used up, and a team without one."""
    budget = models.BudgetModel(money=1000, at_full="no-borrow")
    return models.BudgetList(
        now_ms=now_ms,
        budgets=[
            models.BudgetView(
                team="vision",
                budget=budget,
                month="2027-01",
                spent_money=812.5,
                spent_gpu_hours=1040.2,
                currency="EUR",
                percent=81,
                state="near",
                text="vision has used 81 % of its January budget: 812.50 of 1,000.00 EUR.",
            ),
            models.BudgetView(
                team="nlp",
                month="2027-01",
                spent_money=20,
                spent_gpu_hours=30,
                currency="EUR",
                state="none",
                text="nlp has no budget.",
            ),
        ],
    )
