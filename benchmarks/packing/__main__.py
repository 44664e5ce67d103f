"""Packing: how much of a cluster's GPUs is allocated when as much as all of them was asked for.

``python -m benchmarks.packing --nodes N.csv --pods P.csv --seeds 42-51 --json OUT`` on the openb
traces (Weng et al., "Beware of Fragmentation", USENIX ATC 2023). ``bestfit`` and ``fgd`` are the
paper's. ``gpucommons`` sees a pod when it arrives and nothing earlier; ``gpucommons-migrate`` may
in addition move a few fractional or CPU-only pods for one that fits nowhere.

All four fill the same arrays. Ours are scored by the very objects that place workers in a cycle of
the core (``scheduler/core/packing``: learned demand, policy, board); what a cycle adds, quotas,
holds and exact bits of a device, has no counterpart in these traces. Moves alone are searched for
here (:mod:`.moves`): the core's own search goes by checkpoints and run times, which no trace has.
Seconds are processor time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from statistics import mean

from benchmarks.packing.inflation import POLICIES, Case, Result, run
from benchmarks.packing.traces import BadTrace, read_nodes, read_pods
from benchmarks.results import write


def seeds_of(text: str) -> list[int]:
    """Read ``42-51`` or ``42,44``."""
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        try:
            seeds.extend(range(int(first), int(last or first) + 1))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{part!r}: seeds are like 42-51 or 42,44") from None
    if not seeds:
        raise argparse.ArgumentTypeError(f"{text!r} has no seed; seeds are like 42-51 or 42,44")
    return seeds


def policies_of(text: str) -> list[str]:
    """Read a list of policies."""
    names = text.split(",")
    unknown = [name for name in names if name not in POLICIES]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r}: choose from {', '.join(POLICIES)}")
    return names


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all cases, write one JSON object per line and a table of means."""
    parser = argparse.ArgumentParser(prog="benchmarks.packing", description=__doc__)
    parser.add_argument("--nodes", type=Path, required=True)
    parser.add_argument("--pods", type=Path, required=True, action="append", help="repeatable")
    parser.add_argument("--seeds", type=seeds_of, default=seeds_of("42-51"))
    parser.add_argument("--policies", type=policies_of, default=list(POLICIES))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--workers", type=int, default=2, help="processes side by side")
    chosen = parser.parse_args(arguments)
    try:
        read_nodes(chosen.nodes)
        for pods in chosen.pods:
            read_pods(pods)
    except BadTrace as error:
        print(error, file=sys.stderr)
        return 2
    cases = [
        Case(nodes=chosen.nodes, pods=pods, policy=policy, seed=seed)
        for pods in chosen.pods
        for policy in chosen.policies
        for seed in chosen.seeds
    ]
    with ProcessPoolExecutor(max_workers=max(1, chosen.workers)) as pool:
        results = list(pool.map(run, cases))
    write(chosen.json, map(asdict, results))
    _show(results)
    return 0


def _show(results: Sequence[Result]) -> None:
    print(f"{'trace':28} {'policy':20} {'allocated %':>11} {'decisions/s':>11} {'moved %':>8}")
    for trace, policy in dict.fromkeys((one.trace, one.policy) for one in results):
        some = [one for one in results if (one.trace, one.policy) == (trace, policy)]
        print(
            f"{trace:28} {policy:20} {mean(one.allocated_percent_at_100 for one in some):11.2f}"
            f" {mean(one.decisions_per_second for one in some):11.0f}"
            f" {mean(one.moved_percent for one in some):8.2f}"
        )


if __name__ == "__main__":
    raise SystemExit(main())
