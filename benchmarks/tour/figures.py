"""The figures that are read off when the tour is over."""

from __future__ import annotations

import itertools
import json
import re
import statistics
from collections.abc import Iterable
from pathlib import Path

from benchmarks.tour.machine import Machine

BUNDLE = Path(__file__).resolve().parents[2] / "build" / "labextensions" / "gpucommons" / "static"
_OURS = re.compile(r"our part of the spawn took ([\d.]+) s")
_FINAL = ("succeeded", "failed", "cancelled")


def spawn_overhead_s(machine: Machine) -> float | None:
    """Median of what our lease and ``start()`` added, as the hub logged it."""
    log = (machine.state / "logs" / "hub.log").read_text(errors="replace")
    seconds = [float(text) for text in _OURS.findall(log)]
    return round(statistics.median(seconds), 3) if seconds else None


def bundle_kb() -> float | None:
    """JavaScript of the Lab extension, without maps; 1 KB = 1000 bytes. None when not built."""
    files = list(BUNDLE.rglob("*.js")) if BUNDLE.is_dir() else []
    return round(sum(path.stat().st_size for path in files) / 1000, 1) if files else None


def lost_and_doubled(machine: Machine) -> tuple[int, int]:
    """Jobs that never ended, and attempts of a job that ran at the same time."""
    done = machine.cli("jobs", "--all", "--output", "json")
    jobs = json.loads(done.stdout)["jobs"]
    lost = sum(job["state"] not in _FINAL for job in jobs)
    doubled = 0
    for job in jobs:
        doubled += overlap((a["started_ms"], a["ended_ms"]) for a in job["attempts"])
    return lost, doubled


def overlap(spans: Iterable[tuple[int | None, int | None]]) -> bool:
    """Whether two of a job's attempts ran at the same time, by their starts and ends."""
    ran = sorted((start, end or float("inf")) for start, end in spans if start)
    return any(later[0] < earlier[1] for earlier, later in itertools.pairwise(ran))
