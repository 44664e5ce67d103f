"""Jobs that mean harm: real processes that flood, multiply, spy or refuse to go."""

from __future__ import annotations

import json
import os
from pathlib import Path

import psutil
import pytest
from launches import a_launch, ended, gone, lines, python, stopping, until

from gpucommons.scheduler.confined_files import Refused, empty
from gpucommons.scheduler.core.types import Attempt, Millis
from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.errand import collect
from gpucommons.scheduler.executors.local import LocalExecutor

#: A process that forks and leaves, for ever: whoever lists processes always comes too late.
MAYFLY = """
import os
os.setsid()
print("up", flush=True)
while True:
    if os.fork():
        os._exit(0)
"""


def cancel(executor: LocalExecutor, launch: Launch, *, kill_in_s: float = 0) -> Attempt:
    stopped = stopping(launch, kill_in_s=kill_in_s)
    executor.signal(stopped, now_ms=Millis(0))
    return stopped


def test_no_process_of_a_job_inherits_the_services_environment(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    """Errands and workers run as the user, who can read the environment of own processes."""
    launch = a_launch(*python("import time; print('up'); time.sleep(600)"))
    executor.start(launch)
    until(lambda: lines(executor, launch))

    supervisor = json.loads(executor.folder(launch.attempt.attempt_id).supervisor.read_text())
    inherited = psutil.Process(supervisor["pid"]).environ()
    cancel(executor, launch)
    ended(executor)

    assert inherited["PATH"] == os.environ["PATH"]
    assert "SERVICE_SECRET" not in inherited


def test_a_job_that_prints_without_end_is_stopped_in_time(executor: LocalExecutor) -> None:
    flood = "import os\nos.fork(); os.fork()\nwhile True: os.write(1, b'x' * 65536)"
    launch = a_launch(*python(flood))
    executor.start(launch)
    until(lambda: lines(executor, launch))

    cancel(executor, launch)

    assert ended(executor).killed


def test_processes_that_fork_and_leave_for_ever_are_caught(executor: LocalExecutor) -> None:
    chains = f"import os\nfor _ in range(3):\n    if not os.fork():\n        exec({MAYFLY!r})"
    executor.start(a_launch(*python(chains)))

    assert ended(executor).exit_code == 0
    commands = (" ".join(p.info["cmdline"] or ()) for p in psutil.process_iter(["cmdline"]))
    assert not [command for command in commands if "os.setsid()" in command]


def test_a_cancelled_job_does_not_hold_on_by_copying_results(
    executor: LocalExecutor, home: Path
) -> None:
    """A fifo would wait, a disk may be slow: what runs for the job ends with the job's time."""
    code = (
        "import os; d = os.environ['GPUCOMMONS_ATTEMPT_DIR'] + '/results'; os.makedirs(d);"
        "os.truncate(os.open(d + '/zeros', os.O_WRONLY | os.O_CREAT), 8 << 30)"
    )
    launch = a_launch(*python(code), results_to="runs")
    executor.start(launch)
    runs = home / "runs"
    until(lambda: any(path.stat().st_size for path in runs.glob("zeros.*.partial")))

    cancel(executor, launch)

    assert "could not be copied" in ended(executor).text
    assert not (runs / "zeros").exists()
    (partial,) = runs.iterdir()
    assert partial.stat().st_size < 8 << 30
    partial.unlink()


def test_results_of_trillions_of_zeros_are_not_copied(tmp_path: Path) -> None:
    results, home = tmp_path / "results", tmp_path / "home"
    results.mkdir()
    home.mkdir()
    (results / "zeros").touch()
    os.truncate(results / "zeros", 1 << 40)

    with pytest.raises(Refused, match="zeros"):
        collect(results, home, "runs", job="j", max_bytes=1 << 20)

    assert list((home / "runs").iterdir()) == []


def test_results_in_many_files_are_limited_together(tmp_path: Path) -> None:
    results, home = tmp_path / "results", tmp_path / "home"
    results.mkdir()
    home.mkdir()
    for name in "abc":
        (results / name).write_bytes(b"x" * 600)

    with pytest.raises(Refused):
        collect(results, home, "runs", job="j", max_bytes=1000)


def test_results_in_a_thousand_folders_are_refused_in_words_once_all_others_are_copied(
    tmp_path: Path,
) -> None:
    results, home = tmp_path / "results", tmp_path / "home"
    results.mkdir()
    home.mkdir()
    deep = os.open(results, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("a", dir_fd=deep)
        below = os.open("a", os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = below
    os.close(os.open("leaf", os.O_CREAT | os.O_WRONLY, dir_fd=deep))
    os.close(deep)
    (results / "z").mkdir()
    (results / "z" / "model").write_text("weights")

    with pytest.raises(Refused, match=r"more than 100 folders .* all others were copied"):
        collect(results, home, "runs", job="j", max_bytes=1 << 20)

    assert (home / "runs" / "z" / "model").read_text() == "weights"
    empty(results)


def test_a_job_that_stops_its_supervisor_does_not_keep_its_gpu(executor: LocalExecutor) -> None:
    """Under the service's own account it can; the attempt is over all the same."""
    launch = a_launch(
        *python("import os, signal, time; os.kill(os.getppid(), signal.SIGSTOP); time.sleep(600)")
    )
    executor.start(launch)
    until(executor.folder(launch.attempt.attempt_id).started.exists)
    supervisor = psutil.Process(
        json.loads(executor.folder(launch.attempt.attempt_id).supervisor.read_text())["pid"]
    )
    until(lambda: supervisor.status() == psutil.STATUS_STOPPED)

    stopped = cancel(executor, launch)
    assert stopped.stop is not None
    executor.signal(stopped, now_ms=Millis(stopped.stop.kill_ms + 60_000))

    assert ended(executor).killed
    assert gone(supervisor.pid)


def test_files_that_are_gone_are_a_failed_start_with_its_sentence(executor: LocalExecutor) -> None:
    executor.start(a_launch("true", snapshot="gone"))

    over = ended(executor)

    assert over.start_failed
    assert "gone.tar" in over.text
