"""One worker of MPI with its ranks, beside an ``mpirun`` that does what the test needs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpucommons.scheduler.in_worker import mpirun as at_run_time
from gpucommons.scheduler.in_worker import worker_messages
from gpucommons.scheduler.in_worker.worker_messages import Line, call

#: As the true one: a messenger for each rank, and an end with theirs. Options of ours are eight words.
STARTS_MESSENGERS = 'shift 8; for r in 0 1; do PMIX_RANK=$r "$@" & done; wait'


class Worker:
    """It runs apart, in a folder that has its ``mpirun``."""

    def __init__(self, folder: Path, mpirun: str, rank: str) -> None:
        self.folder = folder
        (folder / "tmp").mkdir()
        (folder / "mpirun").write_text(f"#!/bin/sh\n{mpirun}\n")
        (folder / "mpirun").chmod(0o755)
        place = f"127.0.0.1:{worker_messages.free_port()}"
        ours = [
            sys.executable,
            "-m",
            at_run_time.MODULE,
            "mpi",
            "--rank",
            "0",
            "--",
            "sh",
            "-c",
            rank,
        ]
        env = {
            "GPUCOMMONS_TOKEN": "t",
            at_run_time.WORKERS: f"{place}*2",
            "TMPDIR": str(folder / "tmp"),
        }
        with (folder / "said").open("wb") as said:
            self.process = subprocess.Popen(
                ours,
                cwd=folder,
                env={**os.environ, **env, "PATH": f"{folder}:{os.environ['PATH']}"},
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def end(self) -> tuple[int, str]:
        """How it ended, and what it said."""
        return self.process.wait(60), (self.folder / "said").read_text()

    def until(self, count: int, pattern: str) -> None:
        """Until so many such files are there."""
        while len(list(self.folder.glob(pattern))) < count:
            assert self.process.poll() is None
            time.sleep(0.02)


def test_a_stop_waits_for_ranks_that_save_and_leaves_no_file(tmp_path: Path) -> None:
    saves = "trap 'sleep 1; touch saved.$$; exit 0' TERM; : > begun.$$; while :; do sleep 0.1 & wait; done"
    worker = Worker(tmp_path, STARTS_MESSENGERS, saves)
    worker.until(2, "begun.*")
    os.killpg(worker.process.pid, signal.SIGTERM)
    assert worker.end() == (0, "")
    assert len(list(tmp_path.glob("saved.*"))) == 2
    assert not list((tmp_path / "tmp").iterdir())


def test_an_mpirun_that_ends_before_its_ranks_is_said_to_have_done_so(tmp_path: Path) -> None:
    worker = Worker(tmp_path, "exit 3", "exit 0")
    assert worker.end() == (3, "gpucommons: mpirun ended with 3 before its ranks had begun\n")


def test_ranks_that_mpirun_left_alone_are_ended_and_have_begun(tmp_path: Path) -> None:
    # Its messengers are of its own session, and end with it.
    dies = f"trap 'kill 0' EXIT; ({STARTS_MESSENGERS}) & while [ ! -e dies ]; do sleep 0.1; done"
    worker = Worker(tmp_path, dies, ": > begun.$$; exec sleep 300")
    worker.until(2, "begun.*")
    (tmp_path / "dies").touch()
    code, said = worker.end()
    assert code == 143
    assert said == "gpucommons: mpirun ended this rank, as another one failed or called MPI_Abort\n"


@pytest.mark.parametrize(
    ("hosts", "takes"),
    [("a a a", [False] * 3), ("a b b c", [False, True, False, True])],
)
def test_mpirun_starts_a_daemon_once_on_each_other_host(hosts: str, takes: list[bool]) -> None:
    workers = at_run_time.members(
        " ".join(f"{host}:{port}*1" for port, host in enumerate(hosts.split()))
    )
    assert [at_run_time.takes_daemon(workers, rank) for rank in range(len(workers))] == takes


def test_a_worker_runs_nothing_that_mpirun_would_not_start_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GPUCOMMONS_TOKEN", "t")
    place = ("127.0.0.1", worker_messages.free_port())
    ranks = at_run_time._Ranks(
        command=(), stop=at_run_time.Stop.__new__(at_run_time.Stop), takes_daemon=True
    )
    worker_messages.listen(place, ranks.hear)

    def ended(command: str) -> int:
        line: Line = call(place)
        line.say({"daemon": command})
        return int((line.hear() or {})["ended"])

    (tmp_path / "prted").write_text("#!/bin/sh\nexit 5\n")
    (tmp_path / "prted").chmod(0o755)
    assert ended(f"touch {tmp_path}/harm") == 1
    assert not (tmp_path / "harm").exists()
    ranks.takes_daemon = True
    assert [ended(f"{tmp_path}/prted -x"), ended(f"{tmp_path}/prted -x")] == [5, 1]


@pytest.mark.parametrize(
    "host", ["gc-7-1", "gc-7-1.gc-7.jobs.svc", "10.0.0.8"], ids=["short", "whole", "address"]
)
def test_a_daemon_is_started_by_the_worker_whose_host_mpirun_means(host: str) -> None:
    names = ["gc-7-0.gc-7.jobs.svc", "10.0.0.8" if host[0] == "1" else "gc-7-1.gc-7.jobs.svc"]
    workers = at_run_time.members(
        " ".join(f"{name}:{number}*1" for number, name in enumerate(names))
    )
    assert at_run_time.place_on(workers, host) == (names[1], 1)
    assert at_run_time.place_on(workers, "gc-7") is None
