"""Starting a worker: the process that becomes its command, and where it says why it did not.

A worker's command may stand in a tree that can be saved, or be brought back from its image; what
stands before it is all that differs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from gpucommons.gpu.slices.cgroups import enter
from gpucommons.scheduler.executors.local.attempt.plan import (
    MAX_REFUSAL_BYTES,
    Plan,
    WorkerPlan,
    as_user,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """How a worker is started."""

    #: What stands before its command; for a wake it stands alone.
    prefix: tuple[str, ...] = ()
    #: Folders as (where they lie, where the processes saw them).
    places: tuple[tuple[str, str], ...] = ()
    woken_from: int | None = None


class Worker:
    """One worker's process, from before its command to its end."""

    def __init__(self, process: subprocess.Popen[bytes], refusal: int) -> None:
        self.process = process
        self._refusal: int | None = refusal
        self._refused = ""

    def output(self) -> IO[bytes]:
        """What it prints."""
        assert self.process.stdout is not None  # noqa: S101 - it is a pipe
        return self.process.stdout

    def refused(self) -> str:
        """Why its command did not run, empty where that is not said; its status may be the command's."""
        if self._refusal is not None and not self._refused:
            # Never waited for: under a shared account another process may hold the pipe open.
            with suppress(BlockingIOError):
                said = os.read(self._refusal, MAX_REFUSAL_BYTES)
                self._refused = said.decode(errors="replace")
        return self._refused

    def end(self) -> None:
        """End it, and with it the tree that it stands for: both are gone when this returns."""
        self.process.kill()
        self.process.wait()


def start_worker(plan: Plan, worker: WorkerPlan, start: Start, run: Path) -> Worker:
    """Start one worker; it waits for nothing but its order, which it gets here.

    Raises
    ------
    OSError
        When it cannot be put under the limit of its slice.
    """
    refusal, write_end = os.pipe()
    os.set_blocking(refusal, False)
    process = subprocess.Popen(
        [sys.executable, "-m", "gpucommons.scheduler.executors.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        umask=0o077,
        cwd="/",
        pass_fds=[write_end],
        **as_user(plan.account),
    )
    os.close(write_end)
    order = {
        "command": () if start.woken_from is not None else worker.command,
        "prefix": start.prefix,
        "places": start.places,
        "env": worker.env,
        "secrets": plan.secrets,
        "environment": plan.environment,
        "home": plan.home,
        "cwd": str(run / "work" / plan.working_dir),
        "supervisor": os.getpid(),
        "refusal": write_end,
    }
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    if worker.cgroup is not None:
        # It waits for its order, so it has allocated nothing yet.
        enter(worker.cgroup, process.pid)
    with suppress(BrokenPipeError):
        process.stdin.write(json.dumps(order).encode())
        process.stdin.close()
    if start.prefix and plan.account is not None:
        # A woken process opens it again, as its user.
        os.fchown(process.stdout.fileno(), plan.account.uid, plan.account.gid)
    return Worker(process, refusal)
