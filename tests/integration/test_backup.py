"""A backup of a machine at work, a service that is killed, and another database: the job goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from integration.workstation import Workstation, alive, until

from gpucommons.scheduler.client import calls
from gpucommons.scheduler.models import RECONCILED, JobView

pytestmark = pytest.mark.timeout(400)

CONFIG = """
pools:
  - {name: gpu, notice_s: 1, grace_s: 2, min_run_s: 0, lend_after_s: 0}
teams:
  - name: vision
    members: [USER]
    quotas: {gpu: {guaranteed_milli_gpu: 2000}}
"""
SCRIPT = "import time; time.sleep(600)"


@pytest.fixture
def machine() -> Iterator[Workstation]:
    folder = Path(tempfile.mkdtemp(prefix="gc"))
    user = subprocess.run(["whoami"], capture_output=True, text=True, check=True).stdout.strip()
    options = ("--no-hub", "--trusted-users")
    one = Workstation(folder, config=CONFIG.replace("USER", user), options=options, gpus=2)
    try:
        one.start()
        yield one
    finally:
        for job in ("kept-1", "since-1"):
            typed(one, "cancel", job, check=False)
        one.end()


def typed(machine: Workstation, *words: str, check: bool = True) -> str:
    command = [str(Path(sys.executable).with_name("gpucommons")), *words]
    done = subprocess.run(
        [*command, "--state", str(machine.state)],
        env={name: one for name, one in os.environ.items() if not name.startswith("GPUCOMMONS_")},
        cwd=machine.state.parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


def submitted(machine: Workstation, name: str) -> int:
    """The process of a new job, by the machine's own count: it may have another id where it runs."""
    script = machine.state.parent / f"{name}-{machine.state.parent.name}.py"
    script.write_text(SCRIPT)
    typed(machine, "submit", script.name, "--gpus", "1", "--name", name)

    def running() -> int | None:
        found = (one for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"])
        mine = (one for one in found if one.info["cmdline"][-2:] == ["-u", script.name])
        return next((one.pid for one in mine), None)

    return until(running, f"the start of {name}")


def job(machine: Workstation, name: str) -> JobView:
    with machine.scheduler() as scheduler:
        return scheduler.send(calls.job(name))


def found(machine: Workstation) -> str:
    """What the scheduler found after a restore."""
    with machine.scheduler() as scheduler:
        told = scheduler.send(calls.events(kinds=[RECONCILED])).events
    return told[-1].text if told else ""


def log(machine: Workstation) -> str:
    return (machine.state / "logs" / "scheduler.log").read_text()[-3000:]


def test_a_job_goes_on_when_the_service_is_killed_and_restored_to_another_database(
    machine: Workstation,
) -> None:
    kept = submitted(machine, "kept")
    typed(machine, "backup", "b")
    since = submitted(machine, "since")
    before = machine.pids()
    assert machine.process is not None
    for pid in (machine.process.pid, before["scheduler"], before["agent"]):
        os.kill(pid, signal.SIGKILL)
    machine.process.wait()
    until(lambda: not any(map(alive, before.values())), "the end of all parts")
    for path in machine.state.glob("scheduler.db*"):
        path.rename(path.with_name(f"lost-{path.name}"))
    assert alive(kept)
    assert "was restored" in typed(machine, "restore", "b")

    machine.start()

    told = until(lambda: found(machine), f"a look around: {log(machine)}")
    until(lambda: not alive(since), f"the end of what the backup did not know: {log(machine)}")
    kept_job = job(machine, "kept-1")
    assert (kept_job.state, len(kept_job.attempts)) == ("running", 1)
    assert alive(kept)
    assert told == (
        "A backup was restored. Jobs found again: vision/kept-1; ran without being known to the"
        " backup, so stopped: since-1."
    )
    refused = typed(machine, "restore", "b", check=False)
    assert refused == ""
    assert job(machine, "kept-1").state == "running"
