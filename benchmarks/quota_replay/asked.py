"""What the command line of a replay asks for: a trace, at a load, under some policies."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpucommons.scheduler.errors import SchedulerError
from gpucommons.scheduler.simulation.trace import read_trace
from gpucommons.scheduler.simulation.trace_cluster import Setting, set_up


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One replay."""

    trace: str
    load: float
    setting: Setting
    policies: Sequence[str]
    json: Path | None


def read(
    arguments: Sequence[str] | None, *, name: str, description: str | None, policies: Iterable[str]
) -> Asked:
    """Read it, and the trace; ends the process with a sentence where that cannot be."""
    known = tuple(policies)
    parser = argparse.ArgumentParser(prog=name, description=description)
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--load", type=float, default=0.85)
    parser.add_argument("--policies", default=",".join(known))
    parser.add_argument("--jobs", type=int, help="only so many lines of the trace")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(arguments)
    names = asked.policies.split(",")
    if unknown := [one for one in names if one not in known]:
        parser.error(f"unknown policy {unknown[0]}; known are {', '.join(known)}")
    if not 0 < asked.load <= 2:
        parser.error("--load is the part of the cluster that the trace fills: 0.85, 0.6, …")
    try:
        trace = read_trace(asked.trace, most=asked.jobs)
    except SchedulerError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    setting = set_up(trace, asked.load)
    return Asked(
        trace=trace.name, load=asked.load, setting=setting, policies=names, json=asked.json
    )
