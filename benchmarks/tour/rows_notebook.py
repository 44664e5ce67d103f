"""Rows A1–A5: a researcher opens a first GPU notebook."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from benchmarks.tour.laboratory import Kernel, Panel
from benchmarks.tour.machine import Machine
from benchmarks.tour.person import Person
from benchmarks.tour.timeline import Timeline, check

BUSY = "import time\nend = time.time() + {seconds}\nwhile time.time() < end: sum(range(10_000))"
#: A busy cell shows at least so much of its slice.
BUSY_PERCENT = 50


@dataclass(kw_only=True)
class Opened:
    """What the first act leaves behind."""

    panel: Panel
    kernel: Kernel
    usage_to_sidebar_s: float


def log_in(line: Timeline, machine: Machine, name: str) -> Person:
    """A1: the start page says what is free."""
    person = Person(machine.url, name, machine.password())
    page = person.spawn_page()
    free = re.search(r"(\w+): <b>([^<]+)</b> notebook GPUs free", page)
    check(free is not None, "A1: the start page does not say how many notebook GPUs are free")
    assert free is not None
    check("simulated" in page, "A1: simulated GPUs are not labelled")
    line.row("A1", f"{name} logs in: “{free[1]}: {free[2]} notebook GPUs free”, simulated")
    for size in ("CPU", "¼", "½", "1"):
        check(f">{size}<" in page, f"A2: size {size} is not offered")
    check("idle" in page or "without GPU use" in page, "A2: the idle rule is not on the form")
    line.row("A2", "sizes CPU, ¼, ½, 1 with what is free, isolation and idle rule in words")
    return person


def open_half(line: Timeline, person: Person, *, team: str) -> Opened:
    """A3–A5: half a GPU, the sidebar's tile, and a cell that moves it."""
    began = time.monotonic()
    answer = person.start_server(milli_gpu=500, team=team)
    check(answer.status_code in (201, 202), f"A3: {answer.status_code} {answer.text}")
    person.wait_until_ready()
    line.row("A3", f"½ GPU started in {time.monotonic() - began:.1f} s")
    panel = Panel(person)
    # The server may greet before it has asked the scheduler for the first time.
    _, told = panel.wait("the lease on the panel", lambda m: m.get("lease") is not None)
    lease = told["lease"]
    check(lease is not None and lease["milli_gpu"] == 500, f"A4: the tile shows {lease}")
    _, usage = panel.wait("usage", lambda m: m["type"] == "usage" and bool(m["samples"]))
    sample = usage["samples"][-1]
    check(sample["simulated"], "A4: the tile does not say simulated")
    line.row(
        "A4",
        f"tile: ½ of {lease['slice']['gpu_kind']}: {(sample['memory_used_mib'] or 0) / 1024:.1f} of"
        f" {sample['memory_limit_mib'] / 1024:.1f} GiB, {sample['compute_percent']} %",
    )
    kernel = Kernel(person)
    kernel.run("import os")
    busy_since = kernel.run(BUSY.format(seconds=4), wait=False)
    seen, _ = panel.wait(
        "a busy tile",
        lambda m: (
            m["type"] == "usage"
            and any((s["compute_percent"] or 0) > BUSY_PERCENT for s in m["samples"])
        ),
        since=busy_since,
    )
    line.row("A5", f"a busy cell moves the tile after {seen - busy_since:.2f} s")
    return Opened(panel=panel, kernel=kernel, usage_to_sidebar_s=round(seen - busy_since, 3))
