"""Rows A7–A10: what is never culled, the warning, the cull, and the ticket."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from benchmarks.tour.laboratory import Kernel, Panel
from benchmarks.tour.machine import Machine
from benchmarks.tour.person import Person
from benchmarks.tour.rows_notebook import Opened
from benchmarks.tour.timeline import Timeline, TourFailedError, check, wait_for


def begin_silence(line: Timeline, opened: Opened) -> float:
    """A7, B7: a cell that says nothing runs on, and the tab is closed."""
    opened.kernel.run("import time; time.sleep(600)", wait=False)
    opened.kernel.close_tab()
    opened.panel.close()
    line.row("B7", "tab closed; the job runs on, and so does a silent cell")
    return time.monotonic()


def silence_was_kept(line: Timeline, person: Person, since: float, *, idle_after_s: int) -> None:
    """A7: much longer than the idle limit, and not culled."""
    silent_s = time.monotonic() - since
    check(silent_s > idle_after_s, f"A7: only {silent_s:.0f} s of silence")
    check(bool(person.server().get("ready")), "A7: a silent busy cell was culled")
    line.row(
        "A7", f"silent cell, tab closed, {silent_s:.0f} s with a limit of {idle_after_s} s: kept"
    )


def warned_kept_and_dropped(line: Timeline, person: Person, kernel: Kernel) -> None:
    """A8: the notification in every tab, *Keep*, then *Drop to CPU*."""
    kernel.interrupt()
    first, second = Panel(person), Panel(person)

    def warning(message: dict[str, Any]) -> bool:
        idle = (message.get("lease") or {}).get("idle") or {}
        return message["type"] in ("lease", "hello") and idle.get("returns_ms") is not None

    for panel in (first, second):
        panel.wait("the idle warning", warning)
    _, message = first.wait("the idle warning", warning)
    lease = message["lease"]
    line.row("A8", f"idle: both tabs are told; {lease['idle']['keeps_left']} keeps left")
    kept = person.lab("POST", f"gpucommons/api/leases/{lease['id']}/keep", json={"minutes": 30})
    check(kept["idle"]["keeps_left"] == lease["idle"]["keeps_left"] - 1, f"A8: {kept['idle']}")
    check(kept["idle"]["returns_ms"] is None, f"A8: still to be returned: {kept['idle']}")
    line.row("A8", "*Keep 30 min*: one less left, the warning is gone")
    # The server that passes the wish on is the one that is stopped: it may not live to answer.
    with suppress(TourFailedError):
        person.lab("POST", f"gpucommons/api/leases/{lease['id']}/drop")
    for panel in (first, second):
        panel.close()
    wait_for(
        "the server without GPU",
        lambda: (
            person.server().get("ready")
            and person.server()["user_options"].get("milli_gpu") in (0, None)
        ),
    )
    line.row("A8", "*Drop to CPU*: the server is back, without a GPU")


def culled(line: Timeline, machine: Machine, person: Person) -> float:
    """A9: no answer: stopped, the GPU free, and the next login says why."""
    wait_for("the cull", lambda: not person.server(), every_s=0.3)
    stopped = time.monotonic()
    wait_for(
        "the freed GPU",
        lambda: '"notebook' not in machine.cli("nodes", "--output", "json").stdout,
        every_s=0.1,
    )
    free_s = time.monotonic() - stopped
    check("Stopped at" in person.spawn_page(), "A9: the next login does not say why it stopped")
    line.row(
        "A9",
        f"no answer: stopped; the GPU is allocatable {free_s:.1f} s later; the next login says why",
    )
    return round(free_s, 2)


def ticket_in_line(line: Timeline, first: Person, second: Person, *, team: str) -> None:
    """A10: the team is full: a place in line, CPU meanwhile nothing pending, starts by itself."""
    ticket = second.take_ticket(milli_gpu="1000", team=team, pool="gpu")
    state = second.ticket(ticket)
    check(not second.server(), "A10: a hub spawn is pending while the ticket waits")
    line.row("A10", f"{second.name}: “{state['headline']}”, {state['title']}; {state['reason']}")
    first.stop_server()
    second.wait_until_ready()
    line.row("A10", f"{first.name} stops; {second.name}'s notebook starts by itself")
