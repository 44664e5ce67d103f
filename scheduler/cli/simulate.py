"""``gpucommons simulate``: the past, or a trace file, under other quotas or policies.

The recorded past is played by the scheduler, which has it; a trace is played here, where its file is.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpucommons.gpu.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.documents import read_config
from gpucommons.scheduler.cli.present import printable, show, table
from gpucommons.scheduler.client import calls
from gpucommons.scheduler.core.resources import Pool, Quota
from gpucommons.scheduler.core.types import TeamName
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.intake.configuration import quota_of
from gpucommons.scheduler.service.replays import side_view
from gpucommons.scheduler.simulation.conditions import Conditions
from gpucommons.scheduler.simulation.figures import Outcome, outcome_of
from gpucommons.scheduler.simulation.plot import Pair, svg, waited
from gpucommons.scheduler.simulation.setting import POOL, Setting, set_up, simulation_of
from gpucommons.scheduler.simulation.trace import read_trace

HEADER = ("TEAM", "", "JOBS", "MEDIAN WAIT", "WORST IN TEN", "GPU-H", "EVICTIONS", "LOST GPU-H")


def simulate(arguments: argparse.Namespace) -> int:
    """Play it twice and compare."""
    config = models.ConfigModel() if arguments.quotas is None else read_config(arguments.quotas)
    if arguments.trace is None:
        with connect(arguments) as scheduler:
            request = models.ReplayRequest(days=arguments.days, changes=_changes(config))
            answer = scheduler.send(calls.replay(request))
    else:
        answer = _of_trace(arguments, config)
    if arguments.plot is not None:
        _draw(arguments.plot, answer)
    compares = bool(config.teams or config.pools)
    show(answer, as_text(answer, compares=compares), output=arguments.output)
    return 0


def _changes(config: models.ConfigModel) -> list[models.QuotaChange]:
    return [
        models.QuotaChange(team=team.name, pool=pool, quota=quota)
        for team in config.teams
        for pool, quota in team.quotas.items()
    ]


# --- a trace ---------------------------------------------------------------------------------


def _of_trace(arguments: argparse.Namespace, config: models.ConfigModel) -> models.ReplayView:
    trace = read_trace(arguments.trace, most=arguments.jobs)
    setting = set_up(trace, arguments.load)
    changed = {
        TeamName(team.name): quota_of(quota)
        for team in config.teams
        for quota in team.quotas.values()
    }
    unknown = sorted(changed.keys() - setting.quotas.keys())
    if unknown:
        message = (
            f"{arguments.quotas} names the team {unknown[0]}; the trace has:"
            f" {', '.join(setting.quotas)}."
        )
        raise BadRequest(message)
    before = _played(setting, _as_set_up(setting), Pool(name=POOL, executor="simulation"))
    after = before
    if config.teams or config.pools:
        after = _played(setting, _as_set_up(setting) | changed, _pool(config))
    left_out = f" {trace.left_out} without a GPU or a run were left out." if trace.left_out else ""
    return models.ReplayView(
        from_ms=before.from_ms,
        until_ms=before.until_ms,
        workloads=len(setting.jobs),
        before=side_view(before),
        after=side_view(after),
        text=f"{len(setting.jobs)} jobs of {trace.name} on {setting.gpus} GPUs.{left_out}",
    )


def _as_set_up(setting: Setting) -> dict[TeamName, Quota]:
    return {
        TeamName(team): Quota(guaranteed_milli_gpu=gpus * WHOLE_MILLI_GPU)
        for team, gpus in setting.quotas.items()
    }


def _pool(config: models.ConfigModel) -> Pool:
    """The policy of the first pool in the file, if it has one."""
    pool = Pool(name=POOL, executor="simulation")
    if not config.pools:
        return pool
    first = config.pools[0]
    return replace(
        pool,
        notice_ms=first.notice_s * 1000,
        grace_ms=first.grace_s * 1000,
        lend_after_ms=first.lend_after_s * 1000,
        min_run_ms=first.min_run_s * 1000,
        half_life_ms=first.half_life_s * 1000,
    )


def _played(setting: Setting, quotas: Mapping[TeamName, Quota], pool: Pool) -> Outcome:
    simulation = simulation_of(setting, Conditions(leave_ms=1_000), pool, quotas)
    last_ms = setting.jobs[-1].submit_ms + 1
    record = simulation.run(until_ms=last_ms)
    refused = [story.refused for story in record.stories.values() if story.refused]
    if refused:
        raise BadRequest(refused[0])
    return outcome_of(
        record,
        from_ms=0,
        until_ms=last_ms,
        capacity_milli_gpu=setting.gpus * WHOLE_MILLI_GPU,
    )


# --- showing ---------------------------------------------------------------------------------


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
    idle = " → ".join(f"{side.idle_gpu_h:.1f}" for side in sides)
    return f"{printable(answer.text)}\n{table(HEADER, rows)}\nin use {use}, idle GPU-h {idle}"


def _one_side(answer: models.ReplayView) -> str:
    side = answer.before
    rows = [_row(name, "", figures) for name, figures in sorted(side.teams.items())]
    rows.append(_row("all", "", side.total))
    header, *lines = [(name, *figures) for name, _, *figures in (HEADER, *rows)]
    return (
        f"{printable(answer.text)}\n{table(header, lines)}\n"
        f"in use {side.utilisation_percent:.1f} %, idle GPU-h {side.idle_gpu_h:.1f}\n"
        "Other quotas beside these: --quotas FILE.yaml"
    )


def _row(name: str, label: str, figures: models.ReplayFigures) -> tuple[Any, ...]:
    return (
        name,
        label,
        figures.jobs,
        waited(figures.median_wait_s),
        waited(figures.worst_tenth_wait_s),
        f"{figures.held_gpu_h:.1f}",
        figures.evictions,
        f"{figures.lost_gpu_h:.1f}",
    )


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
