"""A trace file played on this machine: apart, for only this command needs the whole core.

Everything else that a person types waits for the command line's start, not for this.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.resources import Pool, Quota
from gpucommons.scheduler.core.model.types import TeamName
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.intake.configuration import quota_of
from gpucommons.scheduler.service.administration.replays import side_view
from gpucommons.scheduler.simulation.conditions import Conditions
from gpucommons.scheduler.simulation.figures import Outcome, outcome_of
from gpucommons.scheduler.simulation.trace import read_trace
from gpucommons.scheduler.simulation.trace_cluster import POOL, Setting, set_up, simulation_of


def replay_of_trace(arguments: argparse.Namespace, config: models.ConfigModel) -> models.ReplayView:
    """Play the trace as it is set up, and under the file's quotas and policy beside it."""
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
        text=f"{len(setting.jobs)} jobs of {trace.name} on {setting.gpus} GPUs, simulated.{left_out}",
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
        unlent_permille=first.unlent_permille,
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
