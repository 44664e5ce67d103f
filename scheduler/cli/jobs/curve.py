"""``gpucommons curve``: a job's metrics, a line per step."""

from __future__ import annotations

import argparse
import math

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.present import show, table
from gpucommons.scheduler.client import calls, plan_calls
from gpucommons.scheduler.errors import BadRequest

_WHERE_CURVES_COME_FROM = (
    " It is read from what the job prints (as in “epoch 3 loss 0.52”), from TensorBoard files in its"
    " folder, or from run.report(…)."
)


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add ``curve``."""
    command = commands.add_parser("curve", parents=[shared], help="print a job's metric curve")
    command.add_argument("job", help="name or id")
    command.add_argument(
        "--source",
        choices=("report", "trainer", "tensorboard", "log"),
        help="where it was read (default: the best one)",
    )
    command.add_argument(
        "--until",
        metavar="METRIC=VALUE",
        help="say when the metric likely comes to it, from the curve so far",
    )
    command.set_defaults(run=curve)


def curve(arguments: argparse.Namespace) -> int:
    """Print a job's metric curve, a line per step."""
    if arguments.until is not None:
        return _outlook(arguments)
    with connect(arguments) as scheduler:
        found = scheduler.send(calls.curve(arguments.job, arguments.source))
    show(found, _curve_text(found, arguments.job), output=arguments.output)
    return 0


def _outlook(arguments: argparse.Namespace) -> int:
    """When its goal is likely reached."""
    metric, _, said = arguments.until.rpartition("=")
    try:
        goal = float(said)
    except ValueError:
        goal = math.nan
    if not metric or not math.isfinite(goal):
        raise BadRequest(f"{arguments.until!r} is no goal: write --until accuracy=0.95.")
    with connect(arguments) as scheduler:
        found = scheduler.send(plan_calls.curve_outlook(arguments.job, metric=metric, goal=goal))
    show(found, "\n".join([found.text, *found.hints]), output=arguments.output)
    return 0


def _curve_text(found: models.Curve, job: str) -> str:
    if not found.points:
        others = f" There is one from: {', '.join(found.sources)}." if found.sources else ""
        return f"No curve of {job} is known{'' if others else ' yet'}.{others or _WHERE_CURVES_COME_FROM}"
    unit = next((point.unit for point in reversed(found.points) if point.unit), "step")
    if all(point.metrics.get("epoch") == point.step for point in found.points):
        unit = "epoch"
    counted = {"epoch"} & {unit}
    names = dict.fromkeys(name for point in found.points for name in point.metrics)
    shown = [name for name in names if name not in counted]
    rows = [
        (
            str(point.attempt),
            # Parts of epochs are counted in thousandths: the metric has them as they are.
            _number(point.metrics[unit]) if counted & {*point.metrics} else str(point.step),
            *(_number(point.metrics.get(name)) for name in shown),
        )
        for point in found.points
    ]
    others = " and ".join(source for source in found.sources if source != found.source)
    also = f" (--source: there is also {others})" if others else ""
    return f"source: {found.source}{also}\n" + table(("ATTEMPT", unit.upper(), *shown), rows)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
