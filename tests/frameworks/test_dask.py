"""Real Dask in a kernel's place, its workers a job of ours: they compute, are stopped, and end with the kernel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from frameworks.desk import OVER, PATIENCE_S, Desk, scheduler_of_desks, wait_for

from benchmarks.real_scripts import environment

BESIDE = environment.find(environment.DASK)
EXAMPLE = environment.ROOT / "examples" / "dask_from_a_cell.py"
pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]

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


@pytest.fixture(scope="module")
def environ() -> Iterator[dict[str, str]]:
    yield from scheduler_of_desks(environment.DASK)


@pytest.fixture
def desk(environ: dict[str, str], tmp_path: Path) -> Desk:
    return Desk(tmp_path, environ, BESIDE)


def test_the_example_computes_and_its_job_is_gone_with_the_cell(desk: Desk) -> None:
    shown, _ = desk.run(EXAMPLE, "vision").communicate(timeout=PATIENCE_S)
    assert shown == "best slope 2.0\n"
    newest = desk.newest()
    assert newest.request.max_workers == 4
    wait_for(lambda: desk.job(newest.id).state == "cancelled")


def test_a_kernel_that_is_killed_takes_its_workers_along_and_strangers_stay_out(desk: Desk) -> None:
    with desk.kernel(CELL) as kernel:
        assert kernel.stdout is not None
        job_id, address = kernel.stdout.readline().split()
        wait_for(desk.begins)
        stranger, _ = desk.run("-c", STRANGERS, address).communicate(timeout=PATIENCE_S)
        assert stranger == "refused\nrefused\n"
        kernel.kill()
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
    with desk.kernel(CELL) as kernel:
        assert kernel.stdout is not None
        job_id, _ = kernel.stdout.readline().split()
        wait_for(desk.begins)
        desk.pause_and_resume(job_id)
        assert os.waitid(os.P_PID, kernel.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        wait_for(lambda: desk.begins() == 2)
        desk.end.touch()
        shown, _ = kernel.communicate(timeout=PATIENCE_S)
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
    desk = Desk(tmp_path, {**os.environ, "TMPDIR": str(tmp_path)}, BESIDE)
    shown, _ = desk.run("-c", PLACE).communicate(timeout=PATIENCE_S)
    where, mode = shown.split()
    assert mode == "0o700"
    assert Path(where).parent == tmp_path
    assert (Path(where) == place) == (begins_as in {"nothing", "own"})
