"""Real Dask in a kernel's place, its workers a job of ours: they compute, are stopped, and end with the kernel."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from frameworks.own_scheduler import own_scheduler

from benchmarks.real_scripts import environment
from gpucommons.scheduler.cli.connect import find
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.models import JobView

BESIDE = environment.find(environment.DASK)
EXAMPLE = environment.ROOT / "examples" / "dask_from_a_cell.py"
pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]

CONFIG = """
pools: [{name: train, gpu_kind: A100-40, notice_s: 1, grace_s: 5, hibernation: "off"}]
teams:
- {name: vision, members: [ann], quotas: {train: {}}}
"""
PATIENCE_S = 90.0
OVER = {"succeeded", "failed", "cancelled"}
#: A cell that computes, as long as a file is not there.
CELL = """
import sys, time, pathlib
from gpucommons.scheduler.adapters.dask import DaskCluster

def last(begun, end):
    pathlib.Path(begun).open("a").write("begun\\n")
    while not pathlib.Path(end).exists():
        time.sleep(0.1)
    return "computed"

cluster = DaskCluster(1, 2, gpus=0.5, memory_gib=1, team="vision")
print(cluster.job_id, cluster.scheduler_address, flush=True)
print(cluster.get_client().submit(last, *sys.argv[1:], resources={"GPU": 1}).result(), flush=True)
"""
STRANGERS = """
import sys
from distributed import Client
from distributed.security import Security

for address, security in (
    (sys.argv[1].replace("tls://", "tcp://"), None), (sys.argv[1], Security.temporary())
):
    try:
        Client(address, security=security, timeout=5)
    except OSError:
        print("refused")
"""

PLACE = """
from pathlib import Path
from gpucommons.scheduler.adapters.dask.worker import settings
place = Path(settings({}, 256)["local_directory"])
print(place, oct(place.stat().st_mode & 0o777))
"""


class Desk:
    """Where somebody works."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.environ = {**environ, "PYTHONPATH": str(BESIDE)}
        self.begun, self.end = folder / "begun", folder / "end"

    def run(self, *words: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *map(str, words)],
            env=self.environ, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def cell(self) -> subprocess.Popen[str]:
        return self.run("-c", CELL, self.begun, self.end)

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


def wait_for(is_so: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.2)


@pytest.fixture(scope="module")
def environ() -> Iterator[dict[str, str]]:
    if BESIDE is None:
        pytest.fail(environment.HOW_TO_GET)
    with (
        tempfile.TemporaryDirectory(prefix="gc") as folder,
        own_scheduler(Path(folder), CONFIG) as environ,
    ):
        yield environ


@pytest.fixture
def desk(environ: dict[str, str], tmp_path: Path) -> Desk:
    return Desk(tmp_path, environ)


def test_the_example_computes_and_its_job_is_gone_with_the_cell(desk: Desk) -> None:
    shown, _ = desk.run(EXAMPLE, "vision").communicate(timeout=PATIENCE_S)
    assert shown == "best slope 2.0\n"
    newest = desk.newest()
    assert newest.request.max_workers == 4
    wait_for(lambda: desk.job(newest.id).state == "cancelled")


def test_a_kernel_that_is_killed_takes_its_workers_along_and_strangers_stay_out(desk: Desk) -> None:
    with desk.cell() as cell:
        assert cell.stdout is not None
        job_id, address = cell.stdout.readline().split()
        wait_for(desk.begins)
        stranger, _ = desk.run("-c", STRANGERS, address).communicate(timeout=PATIENCE_S)
        assert stranger == "refused\nrefused\n"
        cell.kill()
    # Also while a worker is at a task, which cannot be interrupted.
    wait_for(lambda: desk.job(job_id).state in OVER)
    assert desk.job(job_id).state == "succeeded"
    assert len(desk.job(job_id).attempts) == 1


def test_workers_of_another_attempt_have_other_names(desk: Desk) -> None:
    told = (
        "from gpucommons.scheduler.adapters.dask.worker import settings\n"
        "for attempt, rank in ('10', '11', '20'):\n"
        "    told = {'GPUCOMMONS_ATTEMPT': attempt, 'GPUCOMMONS_RANK': rank}\n"
        "    print(settings(told, 0)['name'])"
    )
    shown, _ = desk.run("-c", told).communicate(timeout=PATIENCE_S)
    assert shown == "1.0\n1.1\n2.0\n"


def test_what_a_stopped_worker_was_at_is_computed_again(desk: Desk) -> None:
    with desk.cell() as cell:
        assert cell.stdout is not None
        job_id, _ = cell.stdout.readline().split()
        wait_for(desk.begins)
        with desk.scheduler() as scheduler:
            scheduler.send(calls.pause(job_id))
            wait_for(lambda: desk.job(job_id).state == "paused")
            assert os.waitid(os.P_PID, cell.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
            scheduler.send(calls.resume(job_id))
        wait_for(lambda: desk.begins() == 2)
        desk.end.touch()
        shown, _ = cell.communicate(timeout=PATIENCE_S)
    assert shown == "computed\n"
    wait_for(lambda: desk.job(job_id).state == "cancelled")


@pytest.mark.parametrize("begins_as", ["nothing", "open", "link", "own"])
def test_what_a_worker_puts_aside_is_in_a_folder_that_nobody_else_made(
    begins_as: str, tmp_path: Path
) -> None:
    (tmp_path / "dask-scratch-space").mkdir()
    (tmp_path / "dask-scratch-space").chmod(0o777)
    place = tmp_path / f"gpucommons-dask-{os.getuid()}"
    if begins_as == "link":
        place.symlink_to(tmp_path / "dask-scratch-space")
    elif begins_as != "nothing":
        place.mkdir()
        place.chmod(0o777 if begins_as == "open" else 0o700)
    desk = Desk(tmp_path, {**os.environ, "TMPDIR": str(tmp_path)})
    shown, _ = desk.run("-c", PLACE).communicate(timeout=PATIENCE_S)
    where, mode = shown.split()
    assert mode == "0o700"
    assert Path(where).parent == tmp_path
    assert (Path(where) == place) == (begins_as in {"nothing", "own"})
