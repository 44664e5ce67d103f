"""What was really submitted and how long it really ran, to be played again under other quotas."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.model.intents import PutTeams
from gpucommons.scheduler.core.model.lifecycle import is_lease
from gpucommons.scheduler.core.model.resources import NodeState, Quota
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import (
    Millis,
    PoolName,
    Spec,
    TeamName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.whatif.never_starts import never_start
from gpucommons.scheduler.errors import CannotLayOut
from gpucommons.scheduler.simulation.conditions import Conditions
from gpucommons.scheduler.simulation.engine import Simulation
from gpucommons.scheduler.simulation.figures import Outcome, outcome_of
from gpucommons.scheduler.simulation.more_gpus import with_more
from gpucommons.scheduler.simulation.record import Record

Quotas = Mapping[tuple[TeamName, PoolName], Quota]


@dataclass(frozen=True, kw_only=True, slots=True)
class Past:
    """One workload as it was: submitted then, and so much work in all (None = it still runs)."""

    workload_id: WorkloadId
    spec: Spec
    submitted_ms: Millis
    run_ms: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """Where a past is played again: the pools, nodes, teams and rules of today, and nothing else."""

    cluster: Cluster
    past: tuple[Past, ...]
    from_ms: Millis
    until_ms: Millis


@dataclass(frozen=True, kw_only=True, slots=True)
class Played:
    """A past that was played again, up to a time."""

    stage: Stage
    record: Record
    until_ms: int

    def outcome(self, until_ms: int | None = None) -> Outcome:
        """In figures, up to its end or an earlier time."""
        nodes = self.stage.cluster.nodes.values()
        return outcome_of(
            self.record,
            from_ms=self.stage.from_ms,
            until_ms=self.until_ms if until_ms is None else until_ms,
            capacity_milli_gpu=WHOLE_MILLI_GPU * sum(len(node.devices) for node in nodes),
        )


def stage_of(
    cluster: Cluster, workloads: Iterable[Workload], *, from_ms: Millis, until_ms: Millis
) -> Stage:
    """Take what was there in a span: what ran or waited at its beginning, and what came in it."""
    known = {one.workload_id: one for one in workloads}
    past = [found for one in known.values() if (found := _past(one, from_ms, until_ms)) is not None]
    # What is not played will never end there: it was over before, and as good as it had to be.
    played = {one.workload_id for one in past}
    past = [replace(one, spec=_after(one.spec, played)) for one in past]
    empty = Cluster(
        pools=cluster.pools,
        nodes={name: node for name, node in cluster.nodes.items() if node.state is NodeState.READY},
        teams=cluster.teams,
        policy=cluster.policy,
        now_ms=from_ms,
    )
    ordered = sorted(past, key=lambda one: (one.submitted_ms, one.workload_id))
    return Stage(cluster=empty, past=tuple(ordered), from_ms=from_ms, until_ms=until_ms)


def _after(spec: Spec, played: set[WorkloadId]) -> Spec:
    return replace(spec, after=tuple(one for one in spec.after if one in played))


def _past(workload: Workload, from_ms: int, until_ms: int) -> Past | None:
    ended = workload.ended_ms
    if workload.submitted_ms >= until_ms or (ended is not None and ended <= from_ms):
        return None
    ran_ms = 0
    for attempt in workload.attempts:
        began = attempt.reserved_ms if is_lease(workload) else attempt.started_ms
        if began is not None:
            over = attempt.ended_ms if attempt.ended_ms is not None else until_ms
            ran_ms += max(0, min(over, until_ms) - max(began, from_ms))
    live = workload.current is not None
    if ran_ms == 0 and ended is not None:
        return None  # cancelled while it waited, or over in no time
    waits = not live and ended is None
    spec = replace(
        workload.spec,
        not_before_ms=min(workload.spec.not_before_ms, workload.submitted_ms),
        # How long it ran is known; whom it took the place of gave way at its own time.
        resume_from=None,
    )
    return Past(
        workload_id=workload.workload_id,
        spec=spec,
        submitted_ms=workload.submitted_ms,
        # What never started has no known length: it holds what it gets to the end.
        run_ms=None if live or (waits and ran_ms == 0) else ran_ms,
    )


def play(
    stage: Stage,
    quotas: Quotas | None = None,
    *,
    enough: Callable[[Simulation], bool] = lambda _: False,
) -> Played:
    """Play a past again, under the quotas of today or with some of them changed.

    Raises
    ------
    CannotLayOut
        The new quotas do not fit the nodes.
    """
    teams = dict(stage.cluster.teams)
    for (team, pool), quota in (quotas or {}).items():
        teams[team] = replace(teams[team], quotas={**teams[team].quotas, pool: quota})
    simulation = Simulation(
        replace(stage.cluster, teams={}), now_ms=stage.from_ms, conditions=Conditions()
    )
    simulation.at(stage.from_ms, PutTeams(teams=tuple(teams.values())))
    for verdict in simulation.step(stage.from_ms).changes.verdicts:
        if verdict.error is not None:
            # A trial saves nothing anyway.
            raise CannotLayOut(verdict.text.replace(", not saved", ""))
    for one in stage.past:
        at_ms = max(stage.from_ms, one.submitted_ms)
        simulation.submit(at_ms, one.spec, one.run_ms, one.workload_id)
    record = simulation.run(until_ms=stage.until_ms, enough=enough)
    for one in stage.past:
        record.stories[one.workload_id].submitted_ms = one.submitted_ms
    stories, cluster = record.stories, simulation.cluster
    for waits in never_start(
        cluster, [one for one in cluster.workloads if stories[one].started_ms is None]
    ):
        stories[waits].never = True
    cut = enough(simulation)
    return Played(stage=stage, record=record, until_ms=simulation.now_ms if cut else stage.until_ms)


def compare(
    stage: Stage, quotas: Quotas, more: Mapping[PoolName, int], budget_s: float
) -> tuple[Outcome, Outcome]:
    """The same past as it would have been under today's quotas, and under others or on more GPUs.

    Both are counted up to the same time: the end, or as far as the time given was enough.
    """
    before = play(stage, enough=_within(budget_s / 2))
    cluster = with_more(stage.cluster, more)
    shorter = replace(stage, cluster=cluster, until_ms=Millis(before.until_ms))
    after = play(shorter, quotas, enough=_within(budget_s / 2))
    return before.outcome(after.until_ms), after.outcome()


def _within(seconds: float) -> Callable[[Simulation], bool]:
    end = time.monotonic() + seconds
    return lambda _: time.monotonic() > end
