"""Rows D3–D9: a script and a notebook that nobody wrote for a stop go on where they were."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.tour.laboratory import Kernel
from benchmarks.tour.machine import Machine
from benchmarks.tour.person import Person
from benchmarks.tour.timeline import Timeline, TourFailedError, check, wait_for
from gpucommons.scheduler.client import SchedulerClient, calls

#: No line of ours: a script as it is found.
PLAIN = """
import os, time
memory = os.urandom(200 << 20)
total = step = 0
while not os.path.exists(ENOUGH):
    step += 1
    total += step * step
    print("step", step, flush=True)
    time.sleep(0.1)
open("total.txt", "w").write(str(total))
"""
STATE = """
import os, threading, time
x, book, data = 41, open("book.txt", "a"), os.urandom(200 << 20)
ticks = []
def tick():
    while True:
        ticks.append(1)
        time.sleep(0.01)
threading.Thread(target=tick, daemon=True).start()
"""
COUNTS = "for n in range(100_000):\n    print(n, flush=True)\n    time.sleep(0.1)"
#: What was there before, as a cell would ask for it.
ALL_THERE = """
before = len(ticks)
time.sleep(0.5)
book.write("more"); book.flush()
assert x == 41 and len(data) == 200 << 20 and len(ticks) > before and open("book.txt").read() == "more"
"""
#: ``tour.yaml`` says it of its pool.
_KEPT_DAYS = 5
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
    page = wait_for("the trial of saving kernels", lambda: _tried(person))
    return "kernels cannot be saved here" not in page


def _tried(person: Person) -> str | None:
    page = person.spawn_page()
    return None if "where kernels can be saved" in page else page


# --- a script ---------------------------------------------------------------------------------


def plain_script(
    line: Timeline, machine: Machine, person: Person, other: Person, kept: Kept
) -> None:
    """D3–D5: borrowed GPUs go to another team's guarantee, and no step is repeated."""
    job, enough = _begin(machine, person)
    text = _stopped_for(person, other, job)
    line.row("D3", f"“{text}”")
    check("0 steps lost" in text, f"D3: {text}")
    woken = _goes_on(machine, person, job)
    kept.job_wake_to_log_s = round(time.time() - woken["reserved_ms"] / 1000, 2)
    enough.touch()
    total = _total(person, job)
    steps = _steps(machine, job, 1) + _steps(machine, job, 2)
    kept.job_steps_repeated = len(steps) - len(set(steps))
    check(steps == list(range(1, len(steps) + 1)), "D4: a step is missing or done twice")
    line.row("D4", f"woken: {len(steps)} steps, none twice, first line {kept.job_wake_to_log_s} s")
    check(total == sum(n * n for n in steps), f"D5: {total} is not what an unstopped run ends with")
    line.row("D5", f"total.txt is in results/: {total}, as of a run without a stop")


def anew(line: Timeline, machine: Machine, person: Person, other: Person) -> None:
    """D9: the same script where nothing can be saved: said before it is stopped, and after."""
    job, enough = _begin(machine, person)
    way = _job(person, job)["way_to_go_on"]
    check(way["way"] in ("working_folder", "start_over"), f"D9: {way}")
    line.row("D9", f"the script, while it runs: “{way['text']}”")
    line.row("D9", f"“{_stopped_for(person, other, job)}”")
    _goes_on(machine, person, job)
    enough.touch()
    _total(person, job)
    again = _steps(machine, job, 2)
    check(again[:1] == [1], f"D9: it did not begin anew: {again[:3]}")
    line.row("D9", "started anew, and finished")


def _begin(machine: Machine, person: Person) -> tuple[str, Any]:
    """A script that borrows, at work; and the file that ends it."""
    # Where every account may look.
    enough = machine.state.parent / f"enough-{time.monotonic_ns()}"
    source = PLAIN.replace("ENOUGH", repr(str(enough)))
    person.lab(
        "PUT",
        "api/contents/plain.py",
        json={"type": "file", "format": "text", "content": source},
    )
    body = {"path": "plain.py", "request": {"name": "plain", "roles": [{"milli_gpu": 3000}]}}
    job = person.lab("POST", "gpucommons/submit-file", json=body)["id"]
    wait_for("steps of the script", lambda: len(_steps(machine, job, 1)) > 10)
    return job, enough


def _stopped_for(person: Person, other: Person, job: str) -> str:
    """What is said of the stop."""
    role = {"milli_gpu": 1000, "command": [sys.executable, "-c", "import time; time.sleep(2)"]}
    other.lab("POST", "gpucommons/api/jobs", json={"name": "claim", "roles": [role]})
    stopped = wait_for("the stop for the other team", lambda: _attempt(person, job, 1, "ended_ms"))
    return str(stopped["ended_text"])


def _goes_on(machine: Machine, person: Person, job: str) -> dict[str, Any]:
    """Its second attempt, as soon as it has printed a line."""
    attempt = wait_for("the script's turn", lambda: _attempt(person, job, 2, "started_ms"))
    wait_for("its next line", lambda: _steps(machine, job, 2), every_s=0.02)
    return attempt


def _total(person: Person, ref: str) -> int:
    """What the script has written in the end, in the folder of its results."""
    done = wait_for(
        "the end of the script",
        lambda: (view := _job(person, ref))["state"] == "succeeded" and view,
        every_s=0.3,
    )
    results = wait_for(
        "its results",
        lambda: (told := _job(person, ref)["results"])["state"] == "here" and told,
        every_s=0.3,
    )
    check([one["path"] for one in results["files"]] == ["total.txt"], f"D5: {results}")
    found = person.lab("GET", f"api/contents/results/{done['name']}/total.txt")
    return int(found["content"])


def _job(person: Person, ref: str) -> dict[str, Any]:
    return dict(person.lab("GET", f"gpucommons/api/jobs/{ref}"))


def _attempt(person: Person, job: str, number: int, known: str) -> dict[str, Any] | None:
    attempts = _job(person, job)["attempts"]
    found = attempts[number - 1] if len(attempts) >= number else None
    return dict(found) if found and found[known] else None


def _steps(machine: Machine, job: str, attempt: int) -> list[int]:
    """What an attempt has printed, read as the operator: pages follow logs, they do not ask for them."""
    with SchedulerClient(f"unix:{machine.state / 'api.sock'}") as scheduler:
        lines = scheduler.send(calls.log(job, attempt=attempt)).lines
    return [int(text.removeprefix("step ")) for text in lines if text.startswith("step ")]


# --- a notebook -------------------------------------------------------------------------------


def notebook(line: Timeline, machine: Machine, person: Person, kept: Kept, *, team: str) -> None:
    """D6–D8: hibernated with a cell that runs and no tab open; another size, everything there."""
    kernel, fresh_s = _start(person, team, milli_gpu=500)
    kernel.run(STATE)
    kernel.run(COUNTS, wait=False, cell=_CELL)
    time.sleep(1)
    kernel.close_tab()
    knows_what_it_keeps(person, "kernels")
    kept.hibernated_free_s = _free_after(machine, person, lambda: _press_hibernate(person))
    last = datetime.now(UTC).astimezone() + timedelta(days=_KEPT_DAYS)
    said = _said(person, r"Your kernel \([^)]*\) is kept until [^.<]+")
    check(
        said.endswith(f"until {last.day} {last:%B}"),
        f"D6: not the pool's {_KEPT_DAYS} days: {said}",
    )
    line.row("D6", f"hibernated, GPU free after {kept.hibernated_free_s} s; “{said}”")
    _, woken_s = _start(person, team, milli_gpu=1000, kernel_id=kernel.kernel_id)
    kept.woken_extra_s = round(woken_s - fresh_s, 2)
    shown = wait_for("the cell", lambda: _printed(person, kernel, 0))[-1]
    numbers = wait_for("more of the cell", lambda: _printed(person, kernel, shown + 20))
    person.lab("POST", f"api/kernels/{kernel.kernel_id}/interrupt")
    again = Kernel(person, kernel.kernel_id)
    again.run(ALL_THERE)
    again.close_tab()
    extra = f"{kept.woken_extra_s} s later than a fresh one"
    line.row("D7", f"another size, kernel back {extra}; variable, thread and open file are there")
    missing = sorted(set(range(numbers[-1])) - set(numbers))
    kept.outputs_missing = len(missing)
    check(len(set(numbers)) == len(numbers), "D8: something is shown twice")
    line.row("D8", f"no tab was open: 0…{numbers[-1]} are kept, missing: {missing or 'none'}")


def variables(line: Timeline, machine: Machine, person: Person, *, team: str) -> None:
    """D9: the weaker way is named before, and at the next start variables are offered."""
    helps = [text for text in machine.cli("doctor").stdout.splitlines() if "hibernation" in text]
    check(bool(helps), "D9: doctor says nothing of saving processes")
    line.row("D9", f"“kernels cannot be saved here, …”; doctor: “{' '.join(helps)}”")
    old, _ = _start(person, team, milli_gpu=500)
    old.run("x = 41")
    old.close_tab()
    knows_what_it_keeps(person, "variables")
    line.row("D9", f"*Hibernate*: “{_refusal(person)}”")
    _free_after(machine, person, person.stop_server)
    line.row("D9", f"“{_said(person, r'1 variable is kept [^.<]+')}”")
    _start(person, team, milli_gpu=500)
    load_x_into_a_new_kernel(person, old)
    line.row("D9", "loaded into a new kernel by a press: x is 41")


def load_x_into_a_new_kernel(person: Person, old: Kernel) -> None:
    """As by a press on what is offered of an earlier kernel, whose ``x`` was 41."""
    new = Kernel(person)
    body = {"stored": old.kernel_id, "kernel": new.kernel_id}
    told = person.lab("POST", "gpucommons/stored-variables", json=body)["result"]
    check(told["loaded"] == ["x"], f"loaded: {told}")
    new.run("assert x == 41")
    new.close_tab()


def _free_after(machine: Machine, person: Person, stop: Callable[[], object]) -> float:
    """Stop a server so; how long until its GPU is free."""
    began = time.monotonic()
    stop()
    wait_for("the stop", lambda: not person.server())
    wait_for(
        "the freed GPU",
        lambda: '"notebook' not in machine.cli("nodes", "--output", "json").stdout,
    )
    return round(time.monotonic() - began, 2)


def _press_hibernate(person: Person) -> None:
    lease = person.lab("GET", "gpucommons/api/lease")["id"]
    person.lab("POST", f"gpucommons/api/leases/{lease}/hibernate")


def _refusal(person: Person) -> str:
    try:
        _press_hibernate(person)
    except TourFailedError as error:
        return str(json.loads(str(error).split("409 ", 1)[1])["message"])
    raise TourFailedError("D9: *Hibernate* was taken where nothing can be saved")


def knows_what_it_keeps(person: Person, what: str) -> None:
    """Wait for what a server says that its stop keeps."""
    wait_for("what its server keeps", lambda: _keeps(person) == what)


def _said(person: Person, pattern: str) -> str:
    """What the start page says of what is kept."""
    said = re.search(pattern, person.spawn_page())
    check(said is not None, f"the start page does not say {pattern}")
    assert said is not None
    return said[0]


def _start(
    person: Person, team: str, *, milli_gpu: int, kernel_id: str | None = None
) -> tuple[Kernel, float]:
    """Start a server; how long until a kernel of it, a new one or that of before, answers."""
    began = time.monotonic()
    answer = person.start_server(milli_gpu=milli_gpu, team=team)
    check(answer.status_code in (201, 202), f"D7: {answer.status_code} {answer.text}")
    person.wait_until_ready()
    kernel = Kernel(person, kernel_id)
    if kernel_id is None:
        kernel.run("1")
    else:
        # Its cell is at work: what it prints next is its answer.
        kernel.hear()
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
