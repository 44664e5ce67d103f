"""``gpucommons simulate``: the past, or a trace file, under other quotas or policies, or on more GPUs.

The recorded past is played by the scheduler, which has it; a trace is played here, where its file is.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gpucommons.gpu.extras import coming_with
from gpucommons.scheduler import models
from gpucommons.scheduler.cli.config_files import read_config
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.options import positive
from gpucommons.scheduler.cli.present import printable, show, table
from gpucommons.scheduler.client import calls
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.simulation.plot import Pair, svg, waited

_FIGURES = ("JOBS", "MEDIAN WAIT", "WORST IN TEN", "GPU-H", "EVICTIONS", "LOST GPU-H, AT MOST")
HEADER = ("TEAM", "", *_FIGURES)
_MOST_LOAD, _MOST_DAYS = 2.0, 31


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add ``simulate``."""
    play = commands.add_parser(
        "simulate",
        parents=[shared],
        help="the last days, or a trace, under other quotas or on more GPUs",
        description="Play the last days of this scheduler, or a file of jobs, once as quotas are and"
        " once with those of a file or on more GPUs, and compare. Nothing is changed.",
    )
    play.add_argument(
        "--days", type=_days, default=7, help="how many of the last, 1 to 31 (default 7)"
    )
    play.add_argument(
        "--quotas", type=Path, metavar="FILE.yaml", help="teams with the quotas to try"
    )
    play.add_argument(
        "--more",
        type=more_gpus,
        action="append",
        default=[],
        metavar="POOL=N",
        help="on so many more GPUs: what if we bought 8 more? May be repeated",
    )
    play.add_argument(
        "--trace", type=Path, metavar="F.csv", help="a CSV file of jobs instead of the last days"
    )
    play.add_argument(
        "--load",
        type=_load,
        default=0.85,
        help="with --trace: as many GPUs as its jobs fill to this part (default 0.85)",
    )
    play.add_argument("--jobs", type=positive, help="with --trace: only its first so many jobs")
    play.add_argument(
        "--plot", type=Path, metavar="OUT.svg", help="draw the longest waits, before and after"
    )
    play.set_defaults(run=simulate)


def _load(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= _MOST_LOAD:
        message = f"{text!r} is no load: a part of the GPUs such as 0.85, at most {_MOST_LOAD}."
        raise argparse.ArgumentTypeError(message)
    return found


def _days(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= _MOST_DAYS):
        message = f"{text!r} is not a number of days from 1 to {_MOST_DAYS}."
        raise argparse.ArgumentTypeError(message)
    return int(text)


def simulate(arguments: argparse.Namespace) -> int:
    """Play it twice and compare."""
    config = models.ConfigModel() if arguments.quotas is None else read_config(arguments.quotas)
    if arguments.trace is not None and arguments.more:
        raise BadRequest("--more is for the last days; a trace has as many GPUs as --load says.")
    if arguments.trace is None:
        with connect(arguments) as scheduler:
            request = models.ReplayRequest(
                days=arguments.days, changes=_changes(config), more=arguments.more
            )
            answer = scheduler.send(calls.replay(request))
    else:
        # Loads the whole core; nobody who lists jobs should wait for it.
        with coming_with("service"):
            from gpucommons.scheduler.cli.trace_replay import replay_of_trace  # noqa: PLC0415

        answer = replay_of_trace(arguments, config)
    text = as_text(answer, compares=bool(config.teams or config.pools or arguments.more))
    if arguments.plot is not None:
        _draw(arguments.plot, answer)
        text = f"{text}\nThe picture is in {arguments.plot}"
    show(answer, text, output=arguments.output)
    return 0


def more_gpus(text: str) -> models.MoreGpus:
    """Read ``train=8``."""
    pool, _, number = text.partition("=")
    try:
        return models.MoreGpus(pool=pool, gpus=int(number))
    except ValueError:
        message = f"{text!r} is not POOL=N, such as train=8, with N from 1 to 1000."
        raise argparse.ArgumentTypeError(message) from None


def _changes(config: models.ConfigModel) -> list[models.QuotaChange]:
    return [
        models.QuotaChange(team=team.name, pool=pool, quota=quota)
        for team in config.teams
        for pool, quota in team.quotas.items()
    ]


def as_text(answer: models.ReplayView, *, compares: bool) -> str:
    """Two rows for each team, or one where nothing was changed, and what is idle."""
    if not compares:
        return _one_side(answer)
    rows: list[tuple[Any, ...]] = []
    names = sorted(answer.before.teams.keys() | answer.after.teams.keys())
    for name in [*names, "all"]:
        for label, side in (("before", answer.before), ("after", answer.after)):
            figures = side.total if name == "all" else side.teams.get(name)
            if figures is not None:
                rows.append(_row(name if label == "before" else "", label, figures))
    sides = (answer.before, answer.after)
    use = " → ".join(f"{side.utilisation_percent:.1f} %" for side in sides)
    free = " → ".join(f"{side.idle_gpu_h:.3f}" for side in sides)
    return f"{printable(answer.text)}\n{table(HEADER, rows)}\nin use {use}, free GPU-h {free}"


def _one_side(answer: models.ReplayView) -> str:
    side = answer.before
    rows = [_row(name, "", figures) for name, figures in sorted(side.teams.items())]
    rows.append(_row("all", "", side.total))
    header, *lines = [(name, *figures) for name, _, *figures in (HEADER, *rows)]
    return (
        f"{printable(answer.text)}\n{table(header, lines)}\n"
        f"in use {side.utilisation_percent:.1f} %, free GPU-h {side.idle_gpu_h:.3f}\n"
        "Other quotas beside these: --quotas FILE.yaml"
    )


def _row(name: str, label: str, figures: models.ReplayFigures) -> tuple[Any, ...]:
    return (
        name,
        label,
        figures.jobs,
        _wait(figures.median_wait_s, figures.median_is_open),
        _wait(figures.worst_tenth_wait_s, figures.worst_tenth_is_open),
        f"{figures.held_gpu_h:.3f}",
        figures.evictions,
        f"{figures.lost_gpu_h:.3f}",
    )


def _wait(seconds: int | None, is_open: bool) -> str:
    """Who never started waited longer than was looked."""
    return f"over {waited(seconds)}" if is_open else waited(seconds)


def _draw(path: Path, answer: models.ReplayView) -> None:
    names = sorted(answer.before.teams.keys() | answer.after.teams.keys())
    pairs = {
        name: Pair(before_s=_worst(answer.before, name), after_s=_worst(answer.after, name))
        for name in names
    }
    try:
        path.write_text(svg(printable(answer.text), pairs), encoding="utf-8")
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror}. Name a file that can."
        raise BadRequest(message) from None


def _worst(side: models.ReplaySide, team: str) -> int | None:
    return side.teams[team].worst_tenth_wait_s if team in side.teams else None
