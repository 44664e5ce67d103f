"""Real Ray beside a kernel, its workers a job of ours: they compute, are stopped, and end with the kernel."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from frameworks.desk import OVER, PATIENCE_S, Desk, scheduler_of_desks, wait_for

from benchmarks.real_scripts import environment

BESIDE = environment.find(environment.RAY)
EXAMPLE = environment.ROOT / "examples" / "ray_from_a_cell.py"
pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900)]

#: A cell that computes, as long as a file is not there. Ray was imported before, as a notebook may have it.
CELL = """
import sys, time, pathlib
import ray
from gpucommons.scheduler.adapters.ray import RayCluster

@ray.remote(num_gpus=1)
def last(begun, end):
    pathlib.Path(begun).open("a").write("begun\\n")
    while not pathlib.Path(end).exists():
        time.sleep(0.1)
    return "computed"

cluster = RayCluster(1, 2, gpus=0.5, memory_gib=1, team="vision")
print(cluster.job_id, cluster.address, cluster._head.pid, flush=True)
print(ray.get(last.remote(*sys.argv[1:])), flush=True)
cluster.close()
"""
#: Two clusters of one kernel; the last one's job computes nothing.
TWO = """
import os, sys, time, pathlib
import ray
from gpucommons.scheduler.adapters.ray import RayCluster

with RayCluster(gpus=0.5, memory_gib=1, team="vision"):
    first = os.environ["RAY_AUTH_TOKEN"]
with RayCluster(gpus=0.5, memory_gib=1, team="vision") as cluster:
    print(len(ray.nodes()), cluster.address, first, flush=True)
    while not pathlib.Path(sys.argv[2]).exists():
        time.sleep(0.1)
"""
#: Without a token, and with another.
STRANGER = """
import os, sys
os.environ["RAY_AUTH_MODE"] = sys.argv[2]
if sys.argv[2] == "token":
    os.environ["RAY_AUTH_TOKEN"] = sys.argv[3]
from ray._raylet import GcsClient
try:
    GcsClient(address=sys.argv[1]).internal_kv_keys(b"", namespace=None, timeout=20)
    print("got in")
except Exception as refusal:
    print("refused" if "uthenticat" in str(refusal) else refusal)
"""


@pytest.fixture(scope="module")
def environ() -> Iterator[dict[str, str]]:
    yield from scheduler_of_desks(environment.RAY)


@pytest.fixture
def desk(environ: dict[str, str], tmp_path: Path) -> Desk:
    return Desk(tmp_path, environ, BESIDE)


def begun(desk: Desk, kernel: subprocess.Popen[str]) -> tuple[str, str, int]:
    """The cluster's job, its address and its head's process, once its task runs."""
    assert kernel.stdout is not None
    job_id, address, head = kernel.stdout.readline().split()
    wait_for(desk.begins)
    return job_id, address, int(head)


def are_of(head: int) -> list[str]:
    """Processes of the head's session, and of those that it began."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes()
        except OSError:
            continue
        if b"gcray-" in words or place.name == str(head):
            found.append(place.name)
    return found


def test_the_example_computes_and_its_job_is_gone_with_the_cell(desk: Desk) -> None:
    shown, _ = desk.run(EXAMPLE, "vision").communicate(timeout=PATIENCE_S)
    # Ray itself tells there of nodes that come and go.
    assert shown.splitlines()[-1] == "best slope 2.0"
    newest = desk.newest()
    assert newest.request.max_workers == 4
    wait_for(lambda: desk.job(newest.id).state == "cancelled")


def test_a_kernel_that_is_killed_takes_head_and_workers_along_and_strangers_stay_out(
    desk: Desk,
) -> None:
    with desk.kernel(CELL) as kernel:
        job_id, address, head = begun(desk, kernel)
        for mode in ("disabled", "token"):
            stranger = desk.run("-c", STRANGER, address, mode, "f" * 64)
            shown, _ = stranger.communicate(timeout=PATIENCE_S)
            assert shown == "refused\n"
        kernel.kill()
    # Also while a worker is at a task.
    wait_for(lambda: desk.job(job_id).state in OVER)
    assert desk.job(job_id).state == "succeeded"
    assert len(desk.job(job_id).attempts) == 1
    wait_for(lambda: not are_of(head))


def test_the_token_of_a_cluster_opens_no_later_one_of_the_same_kernel(desk: Desk) -> None:
    with desk.kernel(TWO) as kernel:
        assert kernel.stdout is not None
        nodes, address, first = kernel.stdout.readline().split()
        assert int(nodes) >= 1
        stranger = desk.run("-c", STRANGER, address, "token", first)
        shown, _ = stranger.communicate(timeout=PATIENCE_S)
        assert shown == "refused\n"
        desk.end.touch()
        kernel.wait(PATIENCE_S)


def test_what_a_stopped_worker_was_at_is_computed_again(desk: Desk) -> None:
    with desk.kernel(CELL) as kernel:
        job_id, _, _ = begun(desk, kernel)
        desk.pause_and_resume(job_id)
        assert os.waitid(os.P_PID, kernel.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        wait_for(lambda: desk.begins() == 2)
        desk.end.touch()
        shown, _ = kernel.communicate(timeout=PATIENCE_S)
    assert shown.splitlines()[-1] == "computed"
    wait_for(lambda: desk.job(job_id).state == "cancelled")
