"""How right forecasts of start times are, on days that were held back.

``python -m benchmarks.forecast --trace F.csv --json OUT`` replays a trace through the core, learns
run lengths and calibration from the days before, and forecasts the start of jobs on the last days
at the moment of their submission: jobs that start at once are counted, not forecast. One line of
JSON per trace: how many starts lay before the end of their window (the aim is 90 %) and inside it
(80 %), how wide windows were, and for how many jobs it said *unknown*. Windows that rest on typical
run times for want of like runs are given apart (``thin``), as are those that took the place of windows
that were wrong too often (``wrong_percent``): neither counts among the others. Jobs that wait in the
same hours wait for the same thing: the interval of a share counts them as calibration does.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.advisor.clock_loss import pinball_ratio
from gpucommons.scheduler.core.model.lifecycle import WAITING_STATES, is_final
from gpucommons.scheduler.core.model.state import Cluster, Outcome
from gpucommons.scheduler.core.model.types import Millis, Workload, WorkloadId
from gpucommons.scheduler.forecast.arrivals import the_past_again
from gpucommons.scheduler.forecast.estimating import Budget, Lengths, estimate
from gpucommons.scheduler.forecast.forecast import Forecast, foreseen, told_of, window_to_show
from gpucommons.scheduler.forecast.runs import History, Run, run_of
from gpucommons.scheduler.forecast.windows import TOGETHER_MS, Basis, apart, calibrate, wait_class
from gpucommons.scheduler.simulation.conditions import Conditions
from gpucommons.scheduler.simulation.engine import Simulation
from gpucommons.scheduler.simulation.trace import Trace, read_trace
from gpucommons.scheduler.simulation.trace_cluster import set_up, simulation_of
from gpucommons.scheduler.store.estimates import Estimate

_DAY_MS = 86_400_000
#: How the classes of waits end whose windows rest on typical run times.
_THIN = " thin"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Which days, and how much of them."""

    load: float = 0.85
    #: Larger traces are sampled down to so many jobs, and their cluster with them.
    jobs: int = 2_000
    #: Held back: the last days, with so much of the submissions.
    held_back: float = 0.2
    #: The days before them, with so much, teach how right windows are.
    calibrating: float = 0.2
    #: Moments at which jobs are forecast on held-back days, and as many on those before: evenly of
    #: all at which somebody new has to wait.
    moments: int = 90
    #: Cycles for the days before; on those days it decides once a minute.
    coarse_cycles: int = 3_000
    fine_ms: int = 60_000
    jobs_per_moment: int = 4
    budget: Budget = field(
        default_factory=lambda: Budget(futures=5, cycles=180, coarse=0.1, finest_ms=60_000)
    )


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A cluster at which new jobs wait, and what had ended by then."""

    cluster: Cluster
    wanted: tuple[WorkloadId, ...]
    runs: int
    held_back: bool


@dataclass
class Replay:
    """A trace, played once: its moments, its runs and its starts."""

    moments: list[Moment] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    starts: dict[WorkloadId, Millis] = field(default_factory=dict)
    #: Jobs submitted on held-back days, and those of them that had to wait.
    submitted: int = 0
    waited: int = 0
    end_ms: int = 0
    jobs: int = 0
    gpus: int = 0


def main(given: Sequence[str] | None = None) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, action="append", required=True)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--load", type=float, default=Plan.load)
    parser.add_argument("--moments", type=int, default=Plan.moments)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args(given)
    with arguments.json.open("w") as out:
        for path in arguments.trace:
            plan = Plan(load=arguments.load, moments=arguments.moments)
            line = json.dumps(measured(read_trace(path), plan, processes=arguments.processes))
            print(line)
            out.write(line + "\n")
    return 0


def measured(trace: Trace, plan: Plan, *, processes: int) -> dict[str, Any]:
    """Replay, forecast, compare."""
    began, spent_s = time.monotonic(), _processor_s()
    replay = replayed(trace, plan)
    replay_s = time.monotonic() - began
    lengths = forecast_all(replay, plan, processes)
    estimates, forecasts = told_in_order(replay, lengths)
    return {
        "trace": trace.name,
        "load": plan.load,
        **summary(replay, estimates, forecasts),
        "moments": len(replay.moments),
        "replay_s": round(replay_s, 1),
        "seconds": round(time.monotonic() - began, 1),
        "processor_s": round(_processor_s() - spent_s, 1),
    }


def _processor_s() -> float:
    whose = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in whose)


# --- the replay ------------------------------------------------------------------------------


def replayed(trace: Trace, plan: Plan) -> Replay:
    """Play the trace once, and keep the clusters of the chosen moments."""
    trace = sampled(trace, plan.jobs)
    setting = set_up(trace, plan.load)
    times = [job.submit_ms for job in setting.jobs]
    held_from_ms = _midnight(times[round(len(times) * (1 - plan.held_back))])
    from_ms = _midnight(times[round(len(times) * (1 - plan.held_back - plan.calibrating))])
    days = _Days(held_from_ms=held_from_ms, until_ms=times[-1])
    simulation = simulation_of(setting, Conditions())
    replay = Replay(gpus=setting.gpus, jobs=len(setting.jobs))
    while (due_ms := simulation.next_ms()) is not None and not days.over(simulation, replay):
        step_ms = plan.fine_ms if due_ms >= from_ms else max(1, from_ms // plan.coarse_cycles)
        now_ms = Millis(max(-(-due_ms // step_ms) * step_ms, simulation.now_ms))
        known = simulation.cluster.workloads
        outcome = simulation.step(now_ms)
        _note(replay, outcome, now_ms)
        new = [w for i, w in outcome.cluster.workloads.items() if i not in known]
        if from_ms <= now_ms <= days.until_ms:
            days.look(replay, outcome.cluster, new, plan.jobs_per_moment)
    replay.end_ms = simulation.now_ms
    for held in (False, True):
        replay.moments += _chosen([m for m in days.moments if m.held_back is held], plan.moments)
    return replay


@dataclass(kw_only=True)
class _Days:
    """The days that are looked at, and the moments of them at which somebody new has to wait."""

    held_from_ms: int
    until_ms: int
    moments: list[Moment] = field(default_factory=list)
    waits: set[WorkloadId] = field(default_factory=set)

    def over(self, simulation: Simulation, replay: Replay) -> bool:
        """Everybody who may be forecast has started."""
        return simulation.now_ms > self.until_ms and self.waits <= replay.starts.keys()

    def look(self, replay: Replay, cluster: Cluster, new: Sequence[Workload], most: int) -> None:
        """Count who has to wait, and keep the cluster if somebody does."""
        held = cluster.now_ms >= self.held_from_ms
        line = [w.workload_id for w in new if w.state in WAITING_STATES]
        replay.submitted += len(new) * held
        replay.waited += len(line) * held
        if not line:
            return
        # A burst of hundreds would say the same thing hundreds of times.
        wanted = tuple(line[:: -(-len(line) // most)])
        self.waits.update(wanted)
        runs = len(replay.runs)
        self.moments.append(Moment(cluster=cluster, wanted=wanted, runs=runs, held_back=held))


def _chosen(moments: Sequence[Moment], most: int) -> list[Moment]:
    """Those that are apart from each other, and others only where these are too few."""
    firsts = {one.cluster.now_ms // TOGETHER_MS: one for one in reversed(moments)}.values()
    times = {one.cluster.now_ms for one in firsts}
    found = _evenly([one for one in moments if one.cluster.now_ms in times], most)
    others = [one for one in moments if one.cluster.now_ms not in times]
    found += _evenly(others, most - len(found))
    return sorted(found, key=lambda one: one.cluster.now_ms)


def _evenly(moments: Sequence[Moment], most: int) -> list[Moment]:
    count = min(most, len(moments))
    return [moments[i * len(moments) // count] for i in range(count)]


def _note(replay: Replay, outcome: Outcome, now_ms: Millis) -> None:
    for workload in outcome.changes.workloads:
        run = run_of(workload, now_ms) if is_final(workload) else None
        replay.runs += [] if run is None else [run]
        if workload.current is not None:
            replay.starts.setdefault(workload.workload_id, workload.current.reserved_ms)


def sampled(trace: Trace, most: int) -> Trace:
    """Every second, third … job, for a cluster that is as much smaller: forecasts cost cycles."""
    every = -(-len(trace.jobs) // most)
    return replace(trace, jobs=trace.jobs[::every])


def _midnight(at_ms: int) -> int:
    return at_ms // _DAY_MS * _DAY_MS


# --- the forecasts ---------------------------------------------------------------------------

#: For the processes, which inherit it: clusters are too large to be sent.
_work: list[tuple[Moment, Sequence[Run], Budget]] = []


def forecast_all(replay: Replay, plan: Plan, processes: int) -> list[Lengths]:
    """Play the futures of every moment."""
    _work[:] = [(one, replay.runs[: one.runs], plan.budget) for one in replay.moments]
    if processes == 1:
        return [_forecast(index) for index in range(len(_work))]
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        return pool.map(_forecast, range(len(_work)), chunksize=1)


def _forecast(index: int) -> Lengths:
    moment, ended, budget = _work[index]
    going = (run_of(w, moment.cluster.now_ms) for w in moment.cluster.workloads.values())
    runs = (*ended, *(run for run in going if run is not None))
    history, now_ms = History(runs), moment.cluster.now_ms
    again = the_past_again(runs, history, now_ms, budget.futures)
    playing = estimate(moment.cluster, history, budget, wanted=moment.wanted, arriving=again)
    while True:
        try:
            next(playing)
        except StopIteration as done:
            found: Lengths = done.value
            return found


def told_in_order(
    replay: Replay, lengths: Sequence[Lengths]
) -> tuple[list[tuple[Estimate, bool]], list[Forecast]]:
    """What would have been said at each moment, knowing only what had happened by then."""
    kept: list[tuple[Estimate, bool]] = []
    said: list[Forecast] = []
    for moment, found in zip(replay.moments, lengths, strict=True):
        now_ms = found.made_ms
        known = [_known_at(one, now_ms) for one, _ in kept]
        for workload_id in found.waits:
            workload = moment.cluster.workloads[workload_id]
            raw, thin = foreseen(found, workload_id)
            name = wait_class(workload, thin=thin)
            calibration = calibrate((one for one in known if one.wait_class == name), now_ms)
            forecast = told_of(found, workload_id, calibration)
            said += [forecast] if moment.held_back else []
            if raw is not None:
                one = Estimate(
                    workload_id=workload_id,
                    made_ms=now_ms,
                    wait_class=name,
                    raw=raw,
                    window=window_to_show(raw, calibration),
                    withheld=forecast.window is None or forecast.basis is Basis.WRONG,
                    started_ms=replay.starts.get(workload_id),
                )
                kept.append((one, moment.held_back))
    return kept, said


def _known_at(estimate: Estimate, now_ms: Millis) -> Estimate:
    started_ms = estimate.started_ms
    return (
        estimate
        if started_ms is None or started_ms <= now_ms
        else replace(estimate, started_ms=None)
    )


# --- the figures -----------------------------------------------------------------------------


def summary(
    replay: Replay, estimates: Sequence[tuple[Estimate, bool]], forecasts: Sequence[Forecast]
) -> dict[str, Any]:
    """Held-back days only. A wait that was promised a device that is being cleared is short and
    easily forecast, so those *in line* are given apart.
    """
    held = [one for one, held_back in estimates if held_back and not one.withheld]
    unknown = sum(one.window is None for one in forecasts)
    thin = [one for one in held if one.wait_class.endswith(_THIN)]
    held = [one for one in held if not one.wait_class.endswith(_THIN)]
    in_line = [one for one in held if not one.wait_class.endswith("promised")]
    wrong = sum(one.basis is Basis.WRONG for one in forecasts)
    return {
        "jobs": replay.jobs,
        "gpus": replay.gpus,
        "submitted": replay.submitted,
        "had_to_wait": replay.waited,
        "forecast": len(forecasts),
        "unknown_percent": _percent(unknown, len(forecasts)),
        "thin_percent": _percent(len(thin), len(forecasts)),
        "wrong_percent": _percent(wrong, len(forecasts)),
        **_rightness(replay, held),
        "pinball_ratio": _sharpness(replay, held, [one for one, _ in estimates]),
        "in_line": _rightness(replay, in_line),
        "thin": _rightness(replay, thin),
    }


def _rightness(replay: Replay, estimates: Sequence[Estimate]) -> dict[str, Any]:
    waits = [(one.started_ms or replay.end_ms) - one.made_ms for one in estimates]
    both = list(zip(waits, estimates, strict=True))
    shown = [(wait, one.window) for wait, one in both]
    in_time = [wait <= window.to_ms for wait, window in shown]
    counts = _counts(both)
    of_counts = sum(count for count, right in zip(counts, in_time, strict=True) if right)
    return {
        "windows": len(both),
        "p90_covers_percent": _percent(sum(in_time), len(both)),
        "inside_percent": _percent(sum(s.from_ms <= w <= s.to_ms for w, s in shown), len(both)),
        "uncalibrated_p90_percent": _percent(sum(w <= one.raw.to_ms for w, one in both), len(both)),
        "counted": round(sum(counts), 1),
        "p90_covers_counted_percent": _percent(of_counts, sum(counts)),
        "p90_interval_percent": wilson(of_counts, sum(counts)),
        "median_wait_min": _minutes(waits),
        "median_width_min": _minutes([s.to_ms - s.from_ms for _, s in shown]),
        "uncalibrated_median_width_min": _minutes([e.raw.to_ms - e.raw.from_ms for e in estimates]),
    }


def _sharpness(replay: Replay, held: Sequence[Estimate], known: Sequence[Estimate]) -> float | None:
    def wait_of(one: Estimate) -> int:
        return (one.started_ms or replay.end_ms) - one.made_ms

    counts = _counts([(wait_of(one), one) for one in held])
    found = pinball_ratio(list(zip(held, counts, strict=True)), known, wait_of)
    return None if found is None else round(found, 3)


def _counts(waits: Sequence[tuple[int, Estimate]]) -> list[float]:
    """As how much of a wait each counts, within its class."""
    counts: dict[int, float] = {}
    for name in {one.wait_class for _, one in waits}:
        alike = [(i, w, one.made_ms) for i, (w, one) in enumerate(waits) if one.wait_class == name]
        found = apart([(made_ms, made_ms + wait) for _, wait, made_ms in alike])
        counts.update((i, count) for (i, _, _), count in zip(alike, found, strict=True))
    return [counts[i] for i in range(len(waits))]


def wilson(part: float, whole: float) -> tuple[float, float] | None:
    """Where the true share lies nineteen times of twenty (Wilson's score interval), in percent."""
    if not whole:
        return None
    z, share = 1.96, part / whole
    middle = share + z * z / (2 * whole)
    half = z * math.sqrt(share * (1 - share) / whole + z * z / (4 * whole * whole))
    low, high = ((middle + sign * half) / (1 + z * z / whole) for sign in (-1, 1))
    return round(100 * low, 1), round(100 * high, 1)


def _percent(part: float, whole: float) -> float | None:
    return round(100 * part / whole, 1) if whole else None


def _minutes(lengths_ms: Sequence[int]) -> float | None:
    return round(median(lengths_ms) / 60_000, 1) if lengths_ms else None


if __name__ == "__main__":
    sys.exit(main())
