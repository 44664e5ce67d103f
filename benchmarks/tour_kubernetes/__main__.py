"""Play the tour on a cluster: ``python -m benchmarks.tour_kubernetes [--json FILE]``.

``--reservations`` says how its pool holds cards; ``--first-fraction`` plays no tour and prints what
the first share of a card costs with each kind.
Real pods under two real kubelets of this machine (as root; ``make setup-kubernetes`` first). Exit
code 1 when something does not hold.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

from benchmarks.tour.playing import played
from benchmarks.tour.timeline import Timeline, check
from benchmarks.tour_kubernetes import acts, first_fraction, moving
from benchmarks.tour_kubernetes.site import PROGRAMS, Site
from gpucommons.scheduler.executors.kubernetes.settings import PoolPlace
from tests.kubernetes.toolchain import toolchain

IDLE_AFTER_S, WARN_AFTER_S = 30, 15
DEFAULT = PoolPlace().reservations


def play(line: Timeline, site: Site, *, milli_gpu: int) -> dict[str, object]:
    """All acts."""
    alice, spawn_s = acts.open_notebook(line, site, milli_gpu=milli_gpu)
    usage_s = acts.look_at_slice(line, alice)
    job, first_step_s = acts.submit(line, site, alice)
    claim_s = acts.claim(line, site, job, alice)
    equal = acts.finish(line, site, alice, job)
    doubled = acts.doubled(site, alice, job)
    culled_s = acts.culled(line, site, alice)
    moved = moving.deleted_and_moved(line, site, alice, milli_gpu=milli_gpu)
    return {
        "spawn_s": spawn_s,
        "our_part_of_spawn_s": acts.our_part_of_spawns(site),
        "sidebar_shows_slice_s": usage_s,
        "submit_to_first_exchange_s": first_step_s,
        "claim_to_running_s": claim_s,
        "final_numbers_equal": equal,
        "doubled_attempts": doubled,
        "pods_left": acts.left_behind(site),
        "culled_pod_gone_s": culled_s,
        **asdict(moved),
    }


def _tour(line: Timeline, arguments: argparse.Namespace) -> dict[str, object]:
    began, kind = time.monotonic(), str(arguments.reservations)
    with Site(idle_after_s=IDLE_AFTER_S, warn_after_s=WARN_AFTER_S, reservations=kind) as site:
        up_s = round(time.monotonic() - began, 1)
        line.row("", f"control plane, two nodes, object storage, scheduler, hub: {up_s} s")
        found = {"up_s": up_s, "reservations": kind}
        found |= play(line, site, milli_gpu=arguments.milli_gpu)
        check(bool(found["final_numbers_equal"]), "the final numbers differ")
    return found | {"rows": line.played, "tour_s": round(time.monotonic() - began, 1)}


def _first_fraction(line: Timeline) -> dict[str, object]:
    return {"first_fraction": first_fraction.measure(line)}


def main() -> int:
    """Parse the command line and play."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--milli-gpu", type=int, default=500, help="of the notebook")
    parser.add_argument("--reservations", choices=first_fraction.KINDS, default=DEFAULT)
    parser.add_argument("--first-fraction", action="store_true", help="every kind, and no tour")
    arguments = parser.parse_args()
    absent = toolchain.missing(PROGRAMS)
    if absent or os.geteuid() != 0:
        sys.stderr.write(f"tour: real nodes need root and {toolchain.HOW_TO_GET}: {absent}\n")
        return 1
    line = Timeline()
    found = played(
        lambda: _first_fraction(line) if arguments.first_fraction else _tour(line, arguments),
        arguments.json,
    )
    return 1 if found is None else 0


if __name__ == "__main__":
    sys.exit(main())
