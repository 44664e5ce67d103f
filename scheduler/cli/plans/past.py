"""What became of plans, for terminals: a job's own below ``show``, all of them in ``calibration``."""

from __future__ import annotations

import argparse
import time

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.present import by, show, table
from gpucommons.scheduler.client import plan_calls

_RIGHT = {True: "in the range", False: "outside of it", None: ""}


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """The grammar of this command."""
    command = commands.add_parser(
        "calibration",
        parents=[shared],
        help="say how often forecast waits and plans were right",
    )
    command.add_argument("--days", type=int, default=90, help="the last so many (default 90)")
    command.set_defaults(run=calibration)


def calibration(arguments: argparse.Namespace) -> int:
    """All windows and plans that were said."""
    with connect(arguments) as scheduler:
        found = scheduler.send(plan_calls.calibration(days=arguments.days))
    show(found, calibration_text(found), output=arguments.output)
    return 0


def calibration_text(found: models.CalibrationView) -> str:
    """Two tables and what is not in them."""
    clocks = table(
        ("WAITS", "POOL", "RIGHT OF SAID", "LATER", "EARLIER", "NOT SAID"),
        [
            (
                row.what,
                row.pool or "all",
                row.share.text,
                str(row.later),
                str(row.earlier),
                str(row.withheld),
            )
            for row in found.clocks
        ],
    )
    grades = table(
        ("GRADE", "RUN", "SPEED RIGHT", "OFF BY", "WAIT RIGHT", "FITTED", "RAN OUT"),
        [
            (
                f"{row.grade}: {row.meaning}",
                str(row.runs),
                row.speed.text,
                "-" if row.speed_off_percent is None else f"{row.speed_off_percent} %",
                row.wait.text,
                str(row.fitted),
                str(row.ran_out),
            )
            for row in found.grades
        ],
    )
    goal = "A range should hold 8 times of 10 (goal: 75 to 85 %)."
    return "\n".join([clocks, "", grades, "", goal, *found.notes])


def plan_text(record: models.PlanRecord) -> str:
    """``  plan: DDP × 4 …``, and a line for each number."""
    if not record.lines:
        return f"  plan: {record.text}"
    now_ms = time.time_ns() // 1_000_000
    came = "came" if record.is_over else "so far"
    lines = [
        f"    {line.what}: said {_predicted(line, now_ms)}, {came} {_actual(line, now_ms).removesuffix(' so far')}"
        f"{f' ({said})' if (said := _RIGHT[line.right]) else ''}"
        for line in record.lines
    ]
    notes = [*record.notes, *([] if record.anew is None else [record.anew.text])]
    return "\n".join([f"  plan: {record.text}", *lines, *(f"    {one}" for one in notes)])


def _predicted(line: models.JudgedLine, now_ms: int) -> str:
    if line.predicted_ms is None:
        return line.predicted
    # A short job's span lies within a minute, which is said once.
    return " to ".join(dict.fromkeys(by(one, now_ms) for one in line.predicted_ms))


def _actual(line: models.JudgedLine, now_ms: int) -> str:
    return line.actual if line.actual_ms is None else by(line.actual_ms, now_ms)
