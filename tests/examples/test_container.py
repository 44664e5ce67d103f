"""The recipe for programs in containers: a stand-in for Caffe, with its options and signals, saves and goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from gpucommons.scheduler.client.documents.jobs import read_job

FOLDER = Path(__file__).parents[2] / "examples" / "container"
#: As Caffe does with `--sigint_effect=stop`: it saves at the end of its iteration, and leaves with 0.
CAFFE = f"""#!{sys.executable}
import os, signal, sys, time
def save(*_):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.makedirs("snapshots", exist_ok=True)
    open("snapshots/net_iter_7.solverstate", "w").close()
    sys.exit(0)
print("beginning", flush=True)
time.sleep(float(os.environ.get("LOADS_S", "0")))
signal.signal(signal.SIGINT, save)
for word in sys.argv[1:]:
    if word.startswith("--snapshot="):
        print("Resuming from", word.partition("=")[2])
        sys.exit(int(os.environ.get("ENDS", "0")))
print("training", flush=True)
time.sleep(30)
"""


def started(place: Path, **env: str) -> subprocess.Popen[str]:
    program = place / "bin" / "caffe"
    program.parent.mkdir(exist_ok=True)
    program.write_text(CAFFE)
    program.chmod(0o755)
    return subprocess.Popen(
        ["sh", str(FOLDER / "train_caffe.sh")],
        cwd=place,
        env={**os.environ, **env, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def stop(job: subprocess.Popen[str]) -> None:
    """As jobs are stopped: all that the command started hears the signal."""
    os.killpg(job.pid, signal.SIGTERM)


def wait_for(word: str, process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    while word not in process.stdout.readline():
        assert process.poll() is None


def test_a_stop_that_comes_while_it_loads_is_not_lost(tmp_path: Path) -> None:
    job = started(tmp_path, LOADS_S="1")
    wait_for("beginning", job)
    stop(job)
    job.communicate(timeout=60)
    assert (tmp_path / "snapshots" / "net_iter_7.solverstate").exists(), "it ran to its end"
    assert job.returncode == 143


def test_a_program_that_knows_another_signal_saves_at_a_stop_and_goes_on(tmp_path: Path) -> None:
    first = started(tmp_path)
    wait_for("training", first)
    stop(first)
    first.communicate(timeout=60)
    assert first.returncode == 143, "it was stopped, and is not done"
    assert (tmp_path / "snapshots" / "net_iter_7.solverstate").exists()
    second = started(tmp_path)
    said, _ = second.communicate(timeout=60)
    assert "Resuming from snapshots/net_iter_7.solverstate" in said
    assert second.returncode == 0
    failed = started(tmp_path, ENDS="3")
    failed.communicate(timeout=60)
    assert failed.returncode == 3, "what it failed with is not hidden"


def test_its_file_is_a_job_in_an_image_of_its_own() -> None:
    _, request, snapshot = read_job(FOLDER / "caffe.yaml", max_bytes=1 << 20)
    assert (request.environment, snapshot) == ("caffe", None)
    assert request.roles[0].command == ["sh", "/model/train_caffe.sh"]
