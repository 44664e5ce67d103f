"""Rows A7–A10: what is never culled, the warning, the cull, and the ticket."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.tour.laboratory import Kernel, Panel
from benchmarks.tour.machine import Machine
from benchmarks.tour.person import Person
from benchmarks.tour.timeline import Timeline, check, wait_for


def silent_cell_is_kept(
    line: Timeline, person: Person, kernel: Kernel, panel: Panel, *, idle_after_s: int
) -> None:
    """A7: a silent cell, tab closed, for longer than the idle limit."""
    kernel.run(f"import time; time.sleep({idle_after_s + 4})", wait=False)
    kernel.close_tab()
    panel.close()
    time.sleep(idle_after_s + 2)
    check(bool(person.server().get("ready")), "A7: a silent busy cell was culled")
    line.row(
        "A7",
        f"silent cell, tab closed, {idle_after_s + 2} s with a limit of {idle_after_s} s: kept",
    )


def warned_kept_and_culled(
    line: Timeline, machine: Machine, person: Person, *, idle_after_s: int
) -> float:
    """A8, A9: the notification in every tab, *Keep*, then no answer: stopped, GPU free."""
    first, second = Panel(person), Panel(person)

    def warning(message: dict[str, Any]) -> bool:
        idle = (message.get("lease") or {}).get("idle") or {}
        return message["type"] in ("lease", "hello") and idle.get("returns_ms") is not None

    for panel in (first, second):
        panel.wait("the idle warning", warning, timeout_s=3 * idle_after_s + 20)
    _, message = first.wait("the idle warning", warning)
    lease = message["lease"]
    line.row("A8", f"both tabs: idle, GPU is returned; {lease['idle']['keeps_left']} keeps left")
    kept = person.lab("POST", f"gpucommons/api/leases/{lease['id']}/keep", json={"minutes": 1})
    check(kept["idle"]["keeps_left"] == lease["idle"]["keeps_left"] - 1, f"A8: {kept['idle']}")
    line.row("A8", "*Keep*: one less left, the warning is gone")
    for panel in (first, second):
        panel.close()
    return _end_of_idle(line, machine, person, lease["id"])


def _end_of_idle(line: Timeline, machine: Machine, person: Person, lease: str) -> float:
    stopped = wait_for(
        "the cull",
        lambda: None if person.server() else time.monotonic(),
        timeout_s=150,
        every_s=0.3,
    )
    done = machine.cli("nodes", "--output", "json")
    check(done.returncode == 0, f"A9: {done.stderr}")
    wait_for(
        "the freed GPU",
        lambda: lease not in machine.cli("nodes", "--output", "json").stdout,
        timeout_s=15,
        every_s=0.2,
    )
    free_s = time.monotonic() - stopped
    page = person.spawn_page()
    check("Stopped at" in page, "A9: the next login does not say why it was stopped")
    line.row(
        "A9",
        f"no answer: server stopped, GPU allocatable {free_s:.1f} s later; next login says why",
    )
    return round(free_s, 2)


def ticket_in_line(line: Timeline, first: Person, second: Person, *, team: str) -> None:
    """A10: the team is full: a place in line, CPU meanwhile nothing pending, starts by itself."""
    ticket = second.take_ticket(milli_gpu="1000", team=team, pool="gpu")
    state = second.ticket(ticket)
    check(not second.server(), "A10: a hub spawn is pending while the ticket waits")
    line.row("A10", f"{second.name} waits in line: {state}")
    first.stop_server()
    second.wait_until_ready(timeout_s=60)
    line.row("A10", f"{first.name} stops; {second.name}'s notebook starts by itself")
