"""A kernel's place, for clusters that a cell begins: programs beside a scheduler of their own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from frameworks.own_scheduler import own_scheduler

from benchmarks.real_scripts import environment
from gpucommons.scheduler.cli.connect import find
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.models import JobView

CONFIG = """
pools: [{name: train, gpu_kind: A100-40, notice_s: 1, grace_s: 5, hibernation: "off"}]
teams:
- {name: vision, members: [ann], quotas: {train: {}}}
"""
#: A busy machine takes a minute until two nodes of Ray are there.
PATIENCE_S = 300.0
OVER = {"succeeded", "failed", "cancelled"}


class Desk:
    """Where somebody works: packages that lie beside ours, and a file by which a task is ended."""

    def __init__(self, folder: Path, environ: dict[str, str], beside: Path | None) -> None:
        self.environ = {**environ, "PYTHONPATH": str(beside)}
        self.begun, self.end = folder / "begun", folder / "end"

    def run(self, *words: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *map(str, words)],
            env=self.environ, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    @contextmanager
    def kernel(self, cell: str) -> Iterator[subprocess.Popen[str]]:
        """A kernel that runs this cell, gone at the end whatever happens."""
        with self.run("-c", cell, self.begun, self.end) as running:
            try:
                yield running
            finally:
                running.kill()

    def begins(self) -> int:
        """How often the task was begun."""
        return len(self.begun.read_text().splitlines()) if self.begun.exists() else 0

    def scheduler(self) -> SchedulerClient:
        url, token = find(Namespace(url=None, state=None), self.environ)
        return SchedulerClient(url, token=token)

    def job(self, job_id: str) -> JobView:
        with self.scheduler() as scheduler:
            return scheduler.send(calls.job(job_id))

    def newest(self) -> JobView:
        with self.scheduler() as scheduler:
            return scheduler.send(calls.jobs(limit=1)).jobs[0]

    def pause_and_resume(self, job_id: str) -> None:
        """Stop all its workers, as others' need of the GPUs would, and let them begin anew."""
        with self.scheduler() as scheduler:
            scheduler.send(calls.pause(job_id))
            wait_for(lambda: self.job(job_id).state == "paused")
            scheduler.send(calls.resume(job_id))


def wait_for(is_so: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.2)


def scheduler_of_desks(group: str) -> Iterator[dict[str, str]]:
    """What clients of a scheduler have in their environment, where this group of packages is there."""
    if environment.find(group) is None:
        pytest.fail(environment.HOW_TO_GET)
    with (
        tempfile.TemporaryDirectory(prefix="gc") as folder,
        own_scheduler(Path(folder), CONFIG) as environ,
    ):
        yield environ
