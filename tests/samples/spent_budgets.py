"""What was used, as pages get it: budgets of two teams, days of a month, weeks of GPUs and experiments; pools that grow."""

from __future__ import annotations

from gpucommons.scheduler import models
from gpucommons.scheduler.models.reports import (
    FinishedWeek,
    ReportDay,
    UseLine,
    UseMark,
    UsePoint,
    Utilisation,
)

_MINUTE_MS, DAY_MS, WEEK_MS = 60_000, 86_400_000, 7 * 86_400_000


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


def _points(now_ms: int, most: int, there: int | None) -> list[UsePoint]:
    """Ninety days, of which the first ten are not known."""
    return [
        UsePoint(from_ms=now_ms - (90 - day) * DAY_MS)
        if day < 10
        else UsePoint(
            from_ms=now_ms - (90 - day) * DAY_MS,
            allocated_milli_gpu=most - 1000 * (day % 7),
            used_milli_gpu=None if day == 12 else most - 1500 * (day % 7) - 500,
            there_milli_gpu=there,
        )
        for day in range(90)
    ]


def weeks_until(now_ms: int) -> list[FinishedWeek]:
    """Thirteen weeks, more finished in each."""
    return [
        FinishedWeek(
            from_ms=now_ms - (13 - number) * WEEK_MS,
            to_ms=now_ms - (12 - number) * WEEK_MS,
            finished=70 + 7 * number,
            held_milli_gpu_h=2_000_000 + 50_000 * number,
        )
        for number in range(13)
    ]


def days_until(now_ms: int) -> list[ReportDay]:
    """Twenty days."""
    return [
        ReportDay(
            from_ms=now_ms - (20 - day) * DAY_MS,
            held_milli_gpu_h=600_000 + 10_000 * (day % 7),
            used_milli_gpu_h=None if day == 0 else 500_000,
            idle_milli_gpu_h=30_000,
            borrowed_milli_gpu_h=150_000,
            lost_milli_gpu_h=4_000,
            there_milli_gpu_h=768_000,
        )
        for day in range(20)
    ]


def a_utilisation(now_ms: int) -> Utilisation:
    """Of one pool and two teams, with two changes."""
    return Utilisation(
        from_ms=now_ms - 90 * DAY_MS,
        to_ms=now_ms,
        step_ms=DAY_MS,
        kept_days=400,
        of_quotas=False,
        pools=["a100"],
        teams=["nlp", "vision"],
        lines=[
            UseLine(of="all", points=_points(now_ms, 31_000, 32_000)),
            UseLine(of="team", name="nlp", points=_points(now_ms, 16_000, 16_000)),
            UseLine(of="team", name="vision", points=_points(now_ms, 12_000, None)),
            UseLine(of="pool", name="a100", points=_points(now_ms, 31_000, 32_000)),
        ],
        marks=[
            UseMark(at_ms=now_ms - 60 * DAY_MS, text="admin: guarantee of <vision> 2 → 4 in a100"),
            UseMark(
                at_ms=now_ms - 20 * DAY_MS,
                text="vision in pool a100: guaranteed 0 → ½, limit 2 → none.",
            ),
        ],
        weeks=weeks_until(now_ms),
    )


def growing_pools(now_ms: int) -> models.GrowthList:
    """One whose nodes come, one of them late; one for which none can be asked for; one that needs none."""
    since = (now_ms - 7 * _MINUTE_MS, now_ms - _MINUTE_MS)
    asked = [models.AskedNodeView(since_ms=one, due_ms=one + 4 * _MINUTE_MS) for one in since]
    return models.GrowthList(
        now_ms=now_ms,
        pools=[
            models.GrowthView(
                pool="cloud",
                max_nodes=4,
                nodes=1,
                booting=["cloud-7f9c"],
                asked=asked,
                said="The cluster's autoscaler works on it.",
            ),
            models.GrowthView(pool="h100", max_nodes=2, nodes=2, asked=[]),
            models.GrowthView(
                pool="spot",
                max_nodes=8,
                nodes=0,
                asked=asked[1:],
                refused="No node can be asked for in pool spot, as the cluster refuses the placeholder pod"
                " that an autoscaler would see: exceeded quota: pods",
            ),
        ],
    )
