"""Rows D3–D9: a script and a notebook that nobody wrote for a stop go on where they were."""

from __future__ import annotations

import re
import sys
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.tour.laboratory import Kernel
from benchmarks.tour.machine import Machine
from benchmarks.tour.person import Person
from benchmarks.tour.timeline import Timeline, check, wait_for

#: No line of ours: a script as it is found.
PLAIN = """
import os, time
total = step = 0
while not os.path.exists(ENOUGH):
    step += 1
    total += step * step
    print("step", step, flush=True)
    time.sleep(0.1)
print("total", total)
"""
COUNTS = "import time\nfor n in range(100_000):\n    print(n, flush=True)\n    time.sleep(0.1)"
_FREE_WITHIN_S = 15
_CELL = "tour"


@dataclass(kw_only=True)
class Kept:
    """Figures of the act; None where this machine can save nothing."""

    job_steps_repeated: int | None = None
    job_wake_to_log_s: float | None = None
    hibernated_free_s: float | None = None
    woken_extra_s: float | None = None
    outputs_missing: int | None = None


def can_save(person: Person) -> bool:
    """What the start page says of this machine, once it has been tried."""
    page = wait_for("the trial of saving kernels", lambda: _known(person), timeout_s=60)
    return "kernels cannot be saved here" not in page


def _known(person: Person) -> str | None:
    page = person.spawn_page()
    return None if "where kernels can be saved" in page else page


def weaker_way(line: Timeline, machine: Machine) -> None:
    """D9: the start page named the weaker way; ``doctor`` says what would help."""
    told = machine.cli("doctor").stdout
    helps = [text for text in told.splitlines() if "hibernation" in text]
    check(bool(helps), f"D9: doctor says nothing of saving processes: {told}")
    line.row("D9", f"“kernels cannot be saved here, …”; doctor: “{' '.join(helps)[:300]}”")


# --- a script ---------------------------------------------------------------------------------


def plain_script(
    line: Timeline, machine: Machine, person: Person, other: Person, kept: Kept
) -> None:
    """D3, D4: borrowed GPUs go to another team's guarantee, and no step is repeated."""
    enough = machine.state / "enough"
    source = PLAIN.replace("ENOUGH", repr(str(enough)))
    person.lab(
        "PUT",
        "api/contents/plain.py",
        json={"type": "file", "format": "text", "content": source},
    )
    request = {"name": "plain", "roles": [{"milli_gpu": 3000}]}
    body = {"path": "plain.py", "request": request}
    job = person.lab("POST", "gpucommons/submit-file", json=body)["id"]
    wait_for("steps of the script", lambda: len(_log(person, job, 1)) > 10, timeout_s=60)
    role = {"milli_gpu": 1000, "command": [sys.executable, "-c", "import time; time.sleep(2)"]}
    claim = {"name": "claim", "roles": [role]}
    other.lab("POST", "gpucommons/api/jobs", json=claim)
    stopped = wait_for(
        "the stop for the other team", lambda: _attempt(person, job, 1, "ended_ms"), timeout_s=60
    )
    line.row("D3", f"“{stopped['ended_text']}”")
    check("0 steps lost" in stopped["ended_text"], f"D3: {stopped}")
    woken = wait_for(
        "the wake of the script", lambda: _attempt(person, job, 2, "started_ms"), timeout_s=90
    )
    wait_for("its next line", lambda: _log(person, job, 2), every_s=0.02)
    kept.job_wake_to_log_s = round(time.time() - woken["reserved_ms"] / 1000, 2)
    enough.touch()
    wait_for(
        "the end of the script",
        lambda: _job(person, job)["state"] == "succeeded",
        timeout_s=60,
        every_s=0.3,
    )
    steps = [int(t.split()[1]) for n in (1, 2) for t in _log(person, job, n) if "step" in t]
    kept.job_steps_repeated = len(steps) - len(set(steps))
    check(steps == list(range(1, len(steps) + 1)), "D4: a step is missing or done twice")
    line.row("D4", f"woken: {len(steps)} steps, none twice, first line {kept.job_wake_to_log_s} s")


def _job(person: Person, ref: str) -> dict[str, Any]:
    return dict(person.lab("GET", f"gpucommons/api/jobs/{ref}"))


def _attempt(person: Person, job: str, number: int, known: str) -> dict[str, Any] | None:
    attempts = _job(person, job)["attempts"]
    found = attempts[number - 1] if len(attempts) >= number else None
    return dict(found) if found and found[known] else None


def _log(person: Person, job: str, attempt: int) -> list[str]:
    found = person.lab("GET", f"gpucommons/api/jobs/{job}/log", params={"attempt": attempt})
    return list(found["lines"])


# --- a notebook -------------------------------------------------------------------------------


def notebook(line: Timeline, machine: Machine, person: Person, kept: Kept, *, team: str) -> None:
    """D6–D8: hibernated with a cell that runs and no tab open; another size, everything there."""
    kernel, fresh_s = _start(person, team, milli_gpu=500)
    kernel.run("x = 41")
    kernel.run(COUNTS, wait=False, cell=_CELL)
    time.sleep(1)
    kernel.close_tab()
    lease = person.lab("GET", "gpucommons/api/lease")["id"]
    wait_for("what its server keeps", lambda: _keeps(person) == "kernels", timeout_s=90)
    began = time.monotonic()
    person.lab("POST", f"gpucommons/api/leases/{lease}/hibernate")
    wait_for("the stop", lambda: not person.server(), timeout_s=60)
    wait_for(
        "the freed GPU",
        lambda: '"notebook' not in machine.cli("nodes", "--output", "json").stdout,
        timeout_s=_FREE_WITHIN_S,
    )
    kept.hibernated_free_s = round(time.monotonic() - began, 2)
    said = re.search(r"Your kernel \([^)]*\) is kept until [^.<]+", person.spawn_page())
    check(said is not None, "D6: the start page does not say what is kept")
    assert said is not None
    line.row("D6", f"hibernated, GPU free after {kept.hibernated_free_s} s; “{said[0]}”")
    _, woken_s = _start(person, team, milli_gpu=1000, kernel_id=kernel.kernel_id)
    kept.woken_extra_s = round(woken_s - fresh_s, 2)
    line.row("D7", f"another size, kernel back {kept.woken_extra_s} s later than a fresh one")
    shown = wait_for("the cell", lambda: _printed(person, kernel, 0))[-1]
    numbers = wait_for("more of the cell", lambda: _printed(person, kernel, shown + 20))
    kept.outputs_missing = numbers[-1] + 1 - len(numbers)
    check(len(set(numbers)) == len(numbers), "D8: something is shown twice")
    line.row("D8", f"no tab was open: 0…{numbers[-1]} are kept, {kept.outputs_missing} missing")
    person.lab("POST", f"api/kernels/{kernel.kernel_id}/interrupt")
    again = Kernel(person, kernel.kernel_id)
    again.run("assert x == 41")
    again.close_tab()


def _start(
    person: Person, team: str, *, milli_gpu: int, kernel_id: str | None = None
) -> tuple[Kernel, float]:
    """Start a server; when a kernel of it, a new one or that of before, is there."""
    began = time.monotonic()
    answer = person.start_server(milli_gpu=milli_gpu, team=team)
    check(answer.status_code in (201, 202), f"D7: {answer.status_code} {answer.text}")
    person.wait_until_ready(timeout_s=90)
    if kernel_id is None:
        kernel = Kernel(person)
        kernel.run("1")
        return kernel, time.monotonic() - began
    kernel = Kernel(person, kernel_id)
    kernel.close_tab()
    return kernel, time.monotonic() - began


def _keeps(person: Person) -> str:
    idle = person.lab("GET", "gpucommons/api/lease").get("idle") or {}
    return str(idle.get("keeps", ""))


def _printed(person: Person, kernel: Kernel, more_than: int) -> list[int] | None:
    found = person.lab("GET", "gpucommons/cell-runs", params={"kernel": kernel.kernel_id})
    text = "".join(one["content"].get("text", "") for one in found["runs"][0]["messages"])
    numbers = [int(word) for word in text.split()]
    return numbers if numbers and numbers[-1] > more_than else None
