"""Jobs in a box with a real CRIU: scripts, what they have done, and programs that come before CRIU."""

from __future__ import annotations

import os
import shlex
import signal
from pathlib import Path

import pytest
from launches import python
from real_box import Box

from gpucommons.gpu.hibernation.criu import find_criu
from gpucommons.scheduler.core.model.going_on import HibernationAbility
from gpucommons.scheduler.core.model.intents import Pause
from gpucommons.scheduler.core.model.types import State, WorkloadId
from gpucommons.scheduler.executors.local.attempt.attempt_folder import AttemptFolder, read_json

ABLE = HibernationAbility(able=True, save_mib_per_s=200, wake_mib_per_s=200)
#: Nothing of its state is on disk: it is in memory alone.
STEPS = """
import time
total = 0
log = open("history", "a", buffering=1)
for step in range(1, 301):
    total += step * step
    log.write(f"{step}\\n")
    print("step", step, flush=True)
    time.sleep(0.02)
open("total", "w").write(str(total))
"""
ALL = list(range(1, 301))


def criu_command() -> tuple[str, ...]:
    """A real CRIU, or a reason why there is no test."""
    criu = find_criu(os.environ)
    if criu is None:
        if os.environ.get("REQUIRE_CRIU"):
            pytest.fail("there is no CRIU here")
        pytest.skip("there is no CRIU 4.2 here (make setup-hibernation)")
    return criu.command


def before_criu(folder: Path, code: str) -> tuple[str, ...]:
    """A shell program in place of CRIU: ``$what`` is ``dump`` or ``restore``, ``criu`` runs it."""
    program = folder / "before-criu"
    own = " ".join(shlex.quote(word) for word in criu_command())
    here = f"cd {shlex.quote(str(folder))}"
    program.write_text(
        f'#!/bin/sh\nwhat=$1\nhere() {{ ( {here} && "$@" ); }}\ncriu() {{ {own} "$@"; }}\n{code}\n'
    )
    program.chmod(0o755)
    return (str(program),)


def history(box: Box, job: WorkloadId) -> list[int]:
    """The steps that a script has written down, as far as lines are whole."""
    current = box.get(job).attempts[-1]
    path = box.executor.folder(current.attempt_id).run / "work" / "history"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def running(box: Box, script: str = STEPS) -> WorkloadId:
    """A job that has done something."""
    job = box.submit("steps", 1000, python(script))
    box.until(lambda: job in box.loop.cluster.workloads and box.gpu_of(job) is not None)
    box.until(lambda: len(history(box, job)) > 20)
    return job


def paused(box: Box, job: WorkloadId) -> None:
    """Stop it for good, for now."""
    box.ask(Pause(workload_id=job))
    box.until(lambda: box.get(job).state is State.PAUSED)


def folder_of(box: Box, job: WorkloadId) -> AttemptFolder:
    """Of its last attempt."""
    return box.executor.folder(box.get(job).attempts[-1].attempt_id)


def kill_supervisor(folder: AttemptFolder) -> None:
    """As the kernel would for lack of memory."""
    os.kill((read_json(folder.supervisor) or {})["pid"], signal.SIGKILL)


def steps_in_the_end(box: Box, job: WorkloadId, home: Path) -> list[int]:
    """All that it wrote down, once it has finished."""
    box.until(lambda: job not in box.loop.cluster.workloads)
    over = box.store.workload(job)
    assert over is not None
    assert over.state is State.SUCCEEDED, over
    path = home / "results" / over.spec.name / "history"
    return [int(one) for one in path.read_text().split()]
