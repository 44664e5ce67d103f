"""Plans on the command line: asked for, taken, and looked back at."""

from __future__ import annotations

import argparse

from gpucommons.scheduler.cli.plans import advise, budgets, past, probe


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """``advise``, ``probe``, ``calibration`` and ``budget``."""
    advise.add_command(commands, shared)
    probe.add_command(commands, shared)
    past.add_command(commands, shared)
    budgets.add_command(commands, shared)


def add_to_submit(command: argparse.ArgumentParser) -> None:
    """By which plan a job is judged afterwards, and what it belongs to."""
    command.add_argument(
        "--plan",
        metavar="ID",
        help="the plan of `gpucommons advise` that it follows: shown beside what came",
    )
    command.add_argument(
        "--max-price",
        type=float,
        metavar="N",
        help="per GPU and hour, in the pools' currency: it waits while each of its pools costs more",
    )
    command.add_argument(
        "--label",
        action="append",
        default=[],
        metavar="NAME=TEXT",
        help="what it belongs to, as in project=thesis: reports add up by project; may be repeated",
    )
