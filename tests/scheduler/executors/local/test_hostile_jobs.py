"""Jobs that mean harm: real processes that flood, multiply, spy or refuse to go."""

from __future__ import annotations

import json
import os
from pathlib import Path

import psutil
from launches import a_launch, ended, gone, lines, python, stopping, until

from gpucommons.scheduler.core.model.types import Attempt, Millis
from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.local.local import LocalExecutor
from gpucommons.scheduler.files.confined_files import empty
from gpucommons.scheduler.working_folder.giving_back import Wanted, give_back

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
    until(lambda: any(path.stat().st_size for path in runs.rglob("zeros.*.partial")))

    cancel(executor, launch)
    ended(executor)

    assert not (runs / "results" / "digits-1").exists()
    assert not executor.folder(launch.attempt.attempt_id).given_back.exists()
    (partial,) = runs.rglob("zeros.*.partial")
    assert partial.stat().st_size < 8 << 30
    partial.unlink()


def test_results_in_a_thousand_folders_are_named_and_all_others_are_copied(tmp_path: Path) -> None:
    run, home = tmp_path / "run", tmp_path / "home"
    results = run / "results"
    results.mkdir(parents=True)
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

    wanted = Wanted(job="j", job_id="1", home=home, below="runs", max_bytes=1 << 20)
    found = give_back(run, {}, wanted)

    assert [one.reason for one in found.left_out] == [
        "lies below more than 100 folders in one another"
    ]
    assert (home / "runs" / "results" / "j" / "z" / "model").read_text() == "weights"
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
