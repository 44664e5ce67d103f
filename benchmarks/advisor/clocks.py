"""Clocks of the queue: coverage and sharpness on traces, and on seeded hubs that were made up.

A hub is five weeks of jobs of twelve users in four teams: more by day than by night, each user with
run lengths of their own (log-normal, as run lengths of clusters are found to be), one to eight GPUs.
``n`` is how many waits apart from each other were judged: fewer than sixty say little.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.advisor.setting import Figure
from benchmarks.forecast import Plan, measured
from gpucommons.scheduler.simulation.trace import Trace, TraceJob, read_trace

SEEDS = (1, 2, 3, 4, 5)
#: Of four weeks 57 to 73 waits were apart from each other.
_DAYS, _JOBS, _USERS, _TEAMS = 35, 4500, 12, 4
_DAY_MS, _HOUR_MS, _MINUTE_MS = 86_400_000, 3_600_000, 60_000
_SIZES = (1, 1, 1, 2, 2, 4, 8)
#: When people work, and how much more they submit then.
_WORK, _BUSY = range(9, 18), 4.0


def figures(traces: Sequence[Path], seeds: Sequence[int] = SEEDS) -> list[Figure]:
    """Three rows for each trace and each hub."""
    # A hub is played whole: of a part too few would wait.
    hubs = Plan(jobs=_JOBS)
    of = [(read_trace(path), Plan()) for path in traces] + [(hub(seed), hubs) for seed in seeds]
    return [figure for trace, plan in of for figure in _of(trace, plan)]


def _of(trace: Trace, plan: Plan) -> Iterator[Figure]:
    found = measured(trace, plan, processes=1)
    n = int(found["counted"])
    for metric, name in (
        ("p90_percent", "p90_covers_counted_percent"),
        ("pinball_ratio", "pinball_ratio"),
        ("unknown_percent", "unknown_percent"),
    ):
        yield Figure("clock", metric, found[name], n, of=trace.name)


def hub(seed: int) -> Trace:
    """Five weeks of a hub; the same for the same seed."""
    drawn = random.Random(seed)  # noqa: S311 - nothing secret
    typical_ms = [_MINUTE_MS * math.exp(drawn.gauss(4.2, 0.8)) for _ in range(_USERS)]
    times = sorted(_time(drawn) for _ in range(_JOBS))
    jobs = []
    for number, at_ms in enumerate(times):
        user = drawn.randrange(_USERS)
        run_ms = round(typical_ms[user] * math.exp(drawn.gauss(0, 0.7)))
        jobs.append(
            TraceJob(
                name=str(number),
                team=f"team-{user % _TEAMS}",
                user=f"user-{user}",
                gpus=drawn.choice(_SIZES),
                submit_ms=at_ms - times[0],
                run_ms=max(_MINUTE_MS, min(run_ms, 2 * _DAY_MS)),
            )
        )
    return Trace(name=f"hub-{seed}", jobs=tuple(jobs), left_out=0)


def _time(drawn: random.Random) -> int:
    hours = [_BUSY if hour in _WORK else 1.0 for hour in range(24)]
    (hour,) = drawn.choices(range(24), hours)
    return round((drawn.randrange(_DAYS) * 24 + hour + drawn.random()) * _HOUR_MS)
