"""``gpucommons budget``: what teams may use in a month, and how much of it they have used."""

from __future__ import annotations

import argparse

from gpucommons.scheduler import amount_words, models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.present import show, table
from gpucommons.scheduler.client import plan_calls
from gpucommons.scheduler.errors import BadRequest


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """The grammar of this command."""
    budget = commands.add_parser("budget", help="what teams may use in a month").add_subparsers(
        required=True
    )
    budget.add_parser("list", parents=[shared], help="how much is used").set_defaults(run=listing)
    change = budget.add_parser("set", parents=[shared], help="give a team one, or take it away")
    change.add_argument("team")
    amount = change.add_mutually_exclusive_group(required=True)
    amount.add_argument("--money", type=float, metavar="N", help="in the pools' currency")
    amount.add_argument("--gpu-hours", type=float, metavar="N")
    amount.add_argument("--none", action="store_true", help="no budget any more")
    change.add_argument(
        "--at-full",
        choices=("warn", "no-borrow", "no-new-jobs"),
        help="what happens when it is used up (default: warn)",
    )
    change.set_defaults(run=set_budget)


def listing(arguments: argparse.Namespace) -> int:
    """Of the caller's teams, or of all for admins."""
    with connect(arguments) as scheduler:
        found = scheduler.send(plan_calls.budgets())
    rows = [
        (
            one.team,
            "-" if one.percent is None else f"{one.percent} %",
            amount_words.hours(one.spent_gpu_hours),
            "-" if one.spent_money is None else f"{one.spent_money:,.2f} {one.currency}",
            "-" if one.budget is None else one.budget.at_full,
            one.text,
        )
        for one in found.budgets
    ]
    header = ("TEAM", "USED", "GPU-HOURS", "MONEY", "AT FULL", "")
    show(found, table(header, rows), output=arguments.output)
    return 0


def set_budget(arguments: argparse.Namespace) -> int:
    """The new budget in place of the old one."""
    if arguments.none and arguments.at_full is not None:
        raise BadRequest("--none takes the budget away: there is nothing for --at-full to say.")
    budget = None
    if not arguments.none:
        budget = models.BudgetModel(
            money=arguments.money,
            gpu_hours=arguments.gpu_hours,
            at_full=arguments.at_full or "warn",
        )
    with connect(arguments) as scheduler:
        answer = scheduler.send(plan_calls.set_budget(arguments.team, budget))
    show(answer, answer.text, output=arguments.output)
    return 0
