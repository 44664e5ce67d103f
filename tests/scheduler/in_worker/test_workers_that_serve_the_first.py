"""A first worker whose end is the end of all, played by real processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpucommons.scheduler.file_storage.prepare import copy_in_worker
from gpucommons.scheduler.in_worker import worker_messages

OURS = (sys.executable, "-m", "gpucommons.scheduler.in_worker")
SERVES = ("sleep", "300")
#: A shell forgets a signal that comes between its fork and what it starts, which then holds the pipe: so not for long.
WAITS = "while :; do sleep 0.1 & wait; done"


@dataclass(frozen=True)
class Meeting:
    """Where the workers of one test meet."""

    first: str
    folder: Path

    def start(
        self,
        how: str,
        *command: str,
        rank: int = 0,
        size: int = 2,
        token: str = "t",  # noqa: S107 - of a test
    ) -> subprocess.Popen[str]:
        seat = ("--first", self.first, "--size", str(size), "--rank", str(rank))
        return subprocess.Popen(
            [*OURS, how, *seat, "--", *command],
            cwd=self.folder,
            env={**os.environ, "GPUCOMMONS_TOKEN": token},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )


def ends(*started: subprocess.Popen[str]) -> list[tuple[int, str]]:
    """How each ended, and all that it said."""
    said = [process.communicate(timeout=60)[0] for process in started]
    return [(process.returncode, text) for process, text in zip(started, said, strict=True)]


@pytest.fixture
def meeting(tmp_path: Path) -> Meeting:
    return Meeting(first=f"127.0.0.1:{worker_messages.free_port()}", folder=tmp_path)


def shell(text: str) -> Sequence[str]:
    return ("sh", "-c", text)


def test_who_serves_ends_well_with_the_script(meeting: Meeting) -> None:
    serving = meeting.start("follow", *SERVES, rank=1)
    leading = meeting.start("lead", *shell("echo trained"))
    assert ends(leading, serving) == [(0, "trained\n"), (0, "")]


def test_a_script_that_fails_is_the_one_that_failed(meeting: Meeting) -> None:
    serving = meeting.start("follow", *SERVES, rank=1)
    leading = meeting.start("lead", *shell("exit 3"))
    assert [code for code, _ in ends(leading, serving)] == [3, 0]


def test_who_ends_early_fails_and_says_so(meeting: Meeting) -> None:
    serving = meeting.start("follow", *shell("exit 0"), rank=1)
    leading = meeting.start("lead", *SERVES)
    [(code, said)] = ends(serving)
    os.killpg(leading.pid, signal.SIGTERM)
    ends(leading)
    assert code == 1
    assert "ended with 0 while the first worker still needed it" in said


def test_a_stop_reaches_the_script_first_and_its_servers_with_its_end(meeting: Meeting) -> None:
    serving = meeting.start(
        "follow", *shell(f"trap 'echo told; exit' TERM; : > serves; {WAITS}"), rank=1
    )
    saves = f"trap 'sleep 0.5; echo saved; exit' TERM; : > trains; {WAITS}"
    leading = meeting.start("lead", *shell(saves))
    while not all((meeting.folder / name).exists() for name in ("serves", "trains")):
        assert leading.poll() is None
        time.sleep(0.02)
    os.killpg(serving.pid, signal.SIGTERM)
    os.killpg(leading.pid, signal.SIGTERM)
    (_, trained), (_, served) = ends(leading, serving)
    assert (trained, served) == ("saved\n", "told\n")


def test_who_waits_for_the_first_hears_a_stop(meeting: Meeting) -> None:
    port = int(meeting.first.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)) as nobody:
        serving = meeting.start("follow", *SERVES, rank=1)
        nobody.accept()[0].close()
        os.killpg(serving.pid, signal.SIGTERM)
        nobody.close()
    assert ends(serving) == [(143, "")]


def test_ranks_that_disagree_on_the_number_of_workers_are_told_so(meeting: Meeting) -> None:
    serving = meeting.start("follow", *SERVES, rank=2, size=3)
    [(code, said)] = ends(meeting.start("lead", *SERVES))
    ends(serving)
    assert code == 1
    assert "worker 2 counts 3 workers and the first one 2" in said


def test_a_port_that_somebody_has_is_named(meeting: Meeting) -> None:
    port = int(meeting.first.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)):
        [(code, said)] = ends(meeting.start("lead", *SERVES))
    assert code == 1
    assert f"port {port}, at which the workers meet, cannot be used: Address already in use" in said


def test_whoever_has_no_token_of_the_attempt_is_no_worker(meeting: Meeting) -> None:
    leading = meeting.start("lead", *SERVES)
    [(code, said)] = ends(meeting.start("follow", *SERVES, rank=1, token="another"))
    os.killpg(leading.pid, signal.SIGTERM)
    ends(leading)
    assert code == 1
    assert "is no worker of this attempt" in said


def test_without_the_framework_the_job_says_what_to_install(meeting: Meeting) -> None:
    words = ("--head", "127.0.0.1:1", "--at", "127.0.0.1:2")
    command = [sys.executable, "-m", "gpucommons.scheduler.in_worker", "ray", *words, "--", "true"]
    done = subprocess.run(
        command, env={**os.environ, "PATH": "/bin"}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        1,
        "gpucommons: Ray is not in this job's environment: install it there (pip install ray).\n",
    )


def test_a_pod_runs_it_with_any_python_of_its_image(tmp_path: Path, meeting: Meeting) -> None:
    copy_in_worker(tmp_path / "in_worker")
    command = [sys.executable, "-I", "-S", str(tmp_path / "in_worker"), "lead"]
    done = subprocess.run(
        [*command, "--first", meeting.first, "--", "echo", "hello"],
        env={**os.environ, "GPUCOMMONS_TOKEN": "t"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "hello\n"


@pytest.mark.parametrize("found", [True, False], ids=["all", "too few"])
def test_a_script_begins_once_all_workers_are_found(found: bool) -> None:
    leads = (
        "import sys; from gpucommons.scheduler.in_worker.first_worker import Seat, lead;"
        f"seat = Seat(rank=0, size=1, first='127.0.0.1:{worker_messages.free_port()}');"
        "lead(seat, ['echo', 'trained'], before=['sh', '-c', sys.argv[1]])"
    )
    begun = subprocess.run(
        [sys.executable, "-c", leads, f"echo looked; exit {int(not found)}"],
        env={**os.environ, "GPUCOMMONS_TOKEN": "t"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert begun.stdout == ("looked\ntrained\n" if found else "looked\n")
    assert ("did not find all of them" in begun.stderr) is not found
