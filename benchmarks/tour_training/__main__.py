"""Play the tour of training: ``python -m benchmarks.tour_training [--json FILE]``.

Rows E1–E12 of the walk-throughs on simulated GPUs: frameworks, the notebook and the sweep on machines of
their own, all the rest beside them on another one; its scheduler and the sweep's are killed again and again.
Exit code 1 when a row does not hold. What the product does not have is printed as missing, and counts as nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from benchmarks.real_scripts.play import machine_without_hub
from benchmarks.tour.playing import played
from benchmarks.tour.timeline import Timeline
from benchmarks.tour_training import (
    rows_again,
    rows_launchers,
    rows_notebook,
    rows_stopped,
    rows_sweep,
    rows_triggers,
)
from benchmarks.tour_training.researcher import Researcher

T = TypeVar("T")
CONFIG = Path(__file__).with_name("cluster.yaml")
#: Rows of the walk-throughs, or parts of them, that the product does not have.
MISSING = {
    "E10": "growth in place: a job grows by a new attempt, to twice its size at most within ten minutes",
}


def play(line: Timeline, person: Researcher) -> dict[str, object]:
    """Rows of one machine: those without GPUs, with all kills, beside the others."""
    shown = threading.Event()
    with ThreadPoolExecutor(1) as beside, ExitStack() as over:
        over.callback(shown.set)
        again = beside.submit(
            _said, line, "rows without GPUs", lambda: _without_gpus(line, person.beside(), shown)
        )
        rows_stopped.drilled(line, person, shown)
        rows_stopped.spot(line, person)
        gained = rows_stopped.elastic(line, person)
        scheduled = again.result()
    return {"elastic_gain": gained, **vars(scheduled)}


def _swept(line: Timeline) -> rows_sweep.Swept:
    """E5 to E7: a sweep wants all GPUs for two minutes, in which the others would wait for it."""
    with _at_work() as person:
        return rows_sweep.sweep(line, person)


@contextmanager
def _at_work() -> Iterator[Researcher]:
    """Who works on a machine of their own; the notebook's alone has a hub."""
    with machine_without_hub(CONFIG) as (machine, scheduler):
        yield Researcher(machine, scheduler)


def _said(line: Timeline, what: str, play: Callable[[], T]) -> T:
    """Say at once which of the rows beside each other failed, and why: the first of them ends the tour."""
    try:
        return play()
    except Exception as error:
        line.row("", f"FAILED: {what}: {type(error).__name__}: {error}")
        raise


def _without_gpus(
    line: Timeline, person: Researcher, drill_shown: threading.Event
) -> rows_again.Scheduled:
    first_ms = rows_again.begin_schedule(line, person)
    rows_triggers.begin(line, person)
    rows_launchers.a_worker_fails(line, person)
    # Progress is told once: a scheduler that is away when a tested job tells its first step learns nothing.
    drill_shown.wait()
    rows_triggers.happen(person)
    rows_again.pipeline(line, person)
    triggered, lost, doubled = rows_triggers.ended(line, person)
    scheduled = rows_again.schedule(line, person, first_ms)
    scheduled.triggers += triggered
    scheduled.lost_triggers += lost
    scheduled.doubled_triggers += doubled
    return scheduled


def _tour(line: Timeline) -> dict[str, object]:
    began, over = time.monotonic(), threading.Event()
    with ThreadPoolExecutor(3) as beside, ExitStack() as ended:
        # Whoever stops the tour, or a row that fails, waits for no framework that has not begun.
        ended.callback(over.set)
        frameworks = beside.submit(rows_launchers.frameworks, line, over)
        notebook = beside.submit(_said, line, "E12", lambda: rows_notebook.offered(line))
        sweep = beside.submit(_said, line, "E5 to E7", lambda: _swept(line))
        with _at_work() as person:
            line.row("", f"gpucommons up answers after {time.monotonic() - began:.1f} s")
            found = play(line, person)
        notebook.result()
        swept = sweep.result()
        played = frameworks.result()
    for row, what in MISSING.items():
        line.row(row, f"MISSING: {what}")
    return {
        "frameworks_resumed": len(played.resumed),
        "frameworks": played.resumed,
        "frameworks_missing": played.missing,
        "frameworks_failed": played.failed,
        **found,
        **vars(swept),
        "rows_missing": MISSING,
        "load": round(os.getloadavg()[1], 1),
        "tour_s": round(time.monotonic() - began, 1),
    }


def main() -> int:
    """Parse the command line and play."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tour_training", description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    found = played(lambda: _tour(Timeline()), arguments.json)
    if found is None:
        return 1
    wrong = [found[key] for key in ("frameworks_failed", "lost_trials", "doubled_trials")]
    return 1 if any(wrong) or found["lost_triggers"] or found["doubled_triggers"] else 0


if __name__ == "__main__":
    sys.exit(main())
