"""Rows B1–B12: a notebook's training borrows GPUs, is stopped for another team, and finishes."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.tour.laboratory import Panel
from benchmarks.tour.machine import Machine
from benchmarks.tour.person import Person
from benchmarks.tour.timeline import Timeline, TourFailedError, check, wait_for
from gpucommons.scheduler import models
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.errors import Unavailable

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "train_digits.py"
#: It must be at work still when another team comes, however slow the machine is.
EPOCHS = 60
SECONDS_PER_EPOCH = 0.5
#: Redirects whoever is not logged in.
PAGES = "/services/gpucommons/"
FINAL = ("succeeded", "failed", "cancelled")


@dataclass(kw_only=True)
class Trained:
    """What the act leaves behind."""

    submit_to_first_log_s: float
    reclaim_extra_s: float
    scheduler_recovery_s: float
    final_metric_equal: bool
    jobs: list[str]


def _job(person: Person, ref: str) -> dict[str, Any]:
    return dict(person.lab("GET", f"gpucommons/api/jobs/{ref}"))


def _save(person: Person, name: str, source: str) -> None:
    person.lab(
        "PUT",
        f"api/contents/{name}",
        json={"type": "file", "format": "text", "content": source},
    )


def _save_scripts(person: Person) -> None:
    _save(person, "train_digits.py", SCRIPT.read_text())
    wrapper = (
        "import sys\n"
        f"sys.argv += ['--epochs', '{EPOCHS}', '--seconds-per-epoch', '{SECONDS_PER_EPOCH}']\n"
        "import runpy\nrunpy.run_path('train_digits.py', run_name='__main__')\n"
    )
    _save(person, "train.py", wrapper)


def submit_borrowing(line: Timeline, person: Person, panel: Panel) -> tuple[str, str, float]:
    """B1–B5: prefilled form, quota line, submit, logs and curve."""
    _save_scripts(person)
    files = person.lab("GET", "gpucommons/files", params={"path": "train.py"})
    names = [file["path"] for file in files["files"]]
    check({"train.py", "train_digits.py"} <= set(names), f"B1: the snapshot lists {names}")
    line.row("B1", f"form prefilled: {len(names)} files, {files['size_bytes'] / 1000:.1f} kB")
    role = {"milli_gpu": 3000, "command": ["python", "train.py"]}
    quote = person.lab("POST", "gpucommons/api/quote", json={"name": "digits", "roles": [role]})
    check(quote["hold_class"] == "over-quota", f"B2: {quote}")
    line.row("B2", f"quota line: “{quote['text']}”")
    first = _first_log(person, panel)
    began = time.monotonic()
    job = person.lab(
        "POST",
        "gpucommons/submit-file",
        json={"path": "train.py", "request": {"name": "digits", "roles": [{"milli_gpu": 3000}]}},
    )
    line.row("B4", f"{job['name']} submitted in {time.monotonic() - began:.2f} s, {job['state']}")
    panel.send(type="follow", job=job["id"], rank=0)
    panel.wait(
        "log lines of the job",
        lambda m: (
            m["type"] == "log" and m["job"] == job["id"] and any("epoch" in t for t in m["lines"])
        ),
        since=began,
    )
    panel.wait(
        "points of the curve",
        lambda m: m["type"] == "curve" and m["job"] == job["id"] and len(m["points"]) > 1,
        since=began,
    )
    running = _job(person, job["id"])
    check(running["hold_class"] == "over-quota", f"B5: holds {running['hold_class']}")
    line.row("B5", f"{job['name']} runs borrowed on 3 GPUs; log and curve stream")
    return job["id"], job["name"], first


def _first_log(person: Person, panel: Panel) -> float:
    """A job that prints at once, GPU free: from the submit to the line in the panel."""
    _save(person, "hello.py", "print('hello')\n")
    began = time.monotonic()
    job = person.lab(
        "POST",
        "gpucommons/submit-file",
        json={"path": "hello.py", "request": {"name": "hello", "roles": [{"milli_gpu": 500}]}},
    )
    panel.send(type="follow", job=job["id"], rank=0)
    seen, _ = panel.wait(
        "the first log line",
        lambda m: m["type"] == "log" and m["job"] == job["id"] and "hello" in m["lines"],
        since=began,
    )
    panel.send(type="unfollow", job=job["id"])
    wait_for("the end of hello", lambda: _job(person, job["id"])["state"] == "succeeded")
    return round(seen - began, 3)


def events_of(machine: Machine, workload: str) -> list[dict[str, Any]]:
    """All events of a job or lease, read as the operator."""
    with SchedulerClient(f"unix:{machine.state / 'api.sock'}") as scheduler:
        events = scheduler.send(calls.events(newest=500)).events
    return [event.model_dump() for event in events if event.workload_id == workload]


def claim_fixed_quota(
    line: Timeline, machine: Machine, job: str, other: Person, team: str
) -> float:
    """B8: another team's notebook claims its fixed quota; the borrower saves and makes room."""
    ticket = other.take_ticket(milli_gpu="1000", team=team, pool="gpu")
    other.wait_until_ready()
    asked, granted = (
        next(
            event for event in events_of(machine, ticket.rsplit("/", 1)[1]) if event["kind"] == kind
        )
        for kind in ("submitted", "granted")
    )
    history = events_of(machine, job)
    told = next(event for event in history if event["kind"] == "stop-announced")
    evicted = next(event for event in history if event["kind"] == "evicted")
    used_ms = evicted["data"]["notice_used_ms"] + evicted["data"]["grace_used_ms"]
    extra_s = (granted["at_ms"] - asked["at_ms"] - used_ms) / 1000
    line.row("B8", f"“{told['text']}”; the script saved and left after {used_ms / 1000:.2f} s")
    line.row("B8", f"receipt (C9): {evicted['text']}")
    line.row(
        "B8",
        f"{other.name} was granted the slice {extra_s:.2f} s beyond that; it started by itself",
    )
    return round(extra_s, 3)


def kill_scheduler(line: Timeline, machine: Machine) -> float:
    """SIGKILL in the middle; how long until a job that comes then is decided upon.

    Asked by a client that runs already: a command's own start is no part of the recovery.
    """
    probe = models.JobRequest(
        name="probe",
        team="vision",
        roles=[models.RoleRequest(command=["python", "-c", "print(1)"])],
    )
    with SchedulerClient(f"unix:{machine.state / 'api.sock'}") as scheduler:

        def answer(call: calls.Call[models.JobView]) -> models.JobView | None:
            with contextlib.suppress(Unavailable):
                return scheduler.send(call)
            return None

        machine.need("scheduler").send_signal(signal.SIGKILL)
        began = time.monotonic()
        asked = calls.submit(probe, key="after-the-kill")
        job = wait_for("the scheduler after SIGKILL", lambda: answer(asked), every_s=0.02)
        wait_for(
            "a decision after SIGKILL",
            lambda: (view := answer(calls.job(job.id))) and view.state != "queued",
            every_s=0.02,
        )
        seconds = time.monotonic() - began
    wait_for("its pages", lambda: httpx.get(f"{machine.url}{PAGES}").is_redirect, every_s=0.05)
    pages_s = time.monotonic() - began
    line.row(
        "",
        f"scheduler killed with SIGKILL: deciding again after {seconds:.2f} s,"
        f" its pages are there after {pages_s:.2f} s",
    )
    return round(seconds, 3)


def _result(person: Person, job: str) -> str | None:
    with contextlib.suppress(TourFailedError):
        return str(person.lab("GET", f"api/contents/results/{job}/digits.json")["content"])
    return None


def finish(
    line: Timeline, machine: Machine, person: Person, job: str
) -> tuple[bool, dict[str, Any]]:
    """B9, B11, B12: back in line, resumed, finished; the same numbers as an uninterrupted run."""
    done = wait_for(
        "the end of the training job",
        lambda: (view := _job(person, job))["state"] in FINAL and view,
        every_s=0.3,
    )
    check(done["state"] == "succeeded", f"B11: the job {done['state']}: {done['ended_text']}")
    resumed = [a["resumed_from_step"] for a in done["attempts"] if a["resumed_from_step"]]
    check(bool(resumed), f"B9: no attempt was resumed: {done['attempts']}")
    line.row("B9", f"{len(done['attempts'])} attempts, resumed from epoch {resumed[-1]}")
    # They are copied once the end is known: on a busy machine that is a moment later.
    result = wait_for("the results of the job", lambda: _result(person, done["name"]), every_s=0.3)
    line.row("B11", f"finished; results are back in the notebook's folder: {result.strip()}")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, str(SCRIPT), "--epochs", str(EPOCHS)],
            cwd=folder,
            check=True,
            capture_output=True,
        )
        alone = (Path(folder) / "results" / "digits.json").read_text()
    equal = json.loads(alone) == json.loads(result)
    line.row(
        "B12",
        f"an uninterrupted run ends with {alone.strip()}: {'equal' if equal else 'DIFFERENT'}",
    )
    return equal, done
