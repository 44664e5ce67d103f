"""The examples do what they say: on real data, with real processes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from free_ports import free_port

from gpucommons.scheduler.cli.config_files import read_config
from gpucommons.scheduler.client.documents.jobs import read_job

EXAMPLES = Path(__file__).parents[2] / "examples"
EPOCH = re.compile(r"^epoch (\d+)", re.MULTILINE)


def environment(attempt: Path | None = None, **named: str) -> dict[str, str]:
    """As outside the scheduler, but one thread for arithmetic: this machine has others to serve."""
    kept = {name: value for name, value in os.environ.items() if "GPUCOMMONS" not in name}
    place = {} if attempt is None else {"GPUCOMMONS_ATTEMPT_DIR": str(attempt)}
    return kept | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} | place | named


def python(*arguments: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment(**env),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def result(folder: Path, name: str = "digits.json") -> dict[str, Any]:
    return json.loads((folder / "results" / name).read_text())


def stopped_after(epochs: int, command: list[str], cwd: Path) -> str:
    """Start, ask it to stop once so many epochs are saved; returns what it printed."""
    process = subprocess.Popen(
        command, cwd=cwd, env=environment(), stdout=subprocess.PIPE, text=True
    )
    printed = ""
    try:
        assert process.stdout is not None
        while f"epoch {epochs} " not in printed:
            line = process.stdout.readline()
            assert line, "it ended before it was stopped"
            printed += line
        process.send_signal(signal.SIGTERM)
        printed += process.communicate(timeout=60)[0]
    finally:
        process.kill()
    assert process.returncode == 143
    return printed


SCRIPT = str(EXAMPLES / "train_digits.py")


def test_a_stopped_training_ends_with_exactly_the_same_numbers(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir(), parts.mkdir()
    assert python(SCRIPT, "--epochs", "12", cwd=whole).returncode == 0

    pace = ["--epochs", "12", "--seconds-per-epoch", "30"]
    first = stopped_after(1, [sys.executable, SCRIPT, *pace], parts)
    second = stopped_after(1 + len(EPOCH.findall(first)), [sys.executable, SCRIPT, *pace], parts)
    last = python(SCRIPT, "--epochs", "12", cwd=parts)

    assert result(parts) == result(whole)
    assert result(parts)["accuracy"] > 0.9
    epochs = [
        int(number) for text in (first, second, last.stdout) for number in EPOCH.findall(text)
    ]
    assert epochs == list(range(1, 13)), "an epoch was skipped or trained twice"


def test_a_damaged_checkpoint_is_not_silently_trained_from(tmp_path: Path) -> None:
    assert python(SCRIPT, "--epochs", "1", cwd=tmp_path).returncode == 0
    (tmp_path / "checkpoints" / "step-1" / "state.npz").write_bytes(b"torn")

    assert python(SCRIPT, "--epochs", "2", cwd=tmp_path).returncode != 0


# --- two workers -----------------------------------------------------------------------------


def gang(folder: Path, size: int, *arguments: str) -> list[str]:
    """Run a gang; returns what each rank printed."""
    port = str(free_port())
    workers = []
    for rank in range(size):
        place = {
            "GPUCOMMONS_RANK": str(rank),
            "GPUCOMMONS_WORLD_SIZE": str(size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
        }
        workers.append(
            subprocess.Popen(
                [sys.executable, str(EXAMPLES / "train_digits_gang.py"), *arguments],
                cwd=folder,
                env=environment(**place),
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    try:
        printed = [worker.communicate(timeout=100)[0] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    assert [worker.returncode for worker in workers] == [0] * size
    return printed


def weights(printed: str) -> float:
    return float(json.loads(printed.splitlines()[-1])["weights"])


@pytest.fixture(scope="module")
def whole_gang(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Two workers that were not stopped: their folder, and what each of them printed."""
    folder = tmp_path_factory.mktemp("gang")
    return folder, gang(folder, 2, "--epochs", "4")


def test_two_workers_train_one_network(whole_gang: tuple[Path, list[str]]) -> None:
    folder, printed = whole_gang

    assert weights(printed[0]) == weights(printed[1])
    assert result(folder, "gang.json")["accuracy"] > 0.8


def test_a_resumed_gang_ends_with_the_same_numbers(
    tmp_path: Path, whole_gang: tuple[Path, list[str]]
) -> None:
    gang(tmp_path, 2, "--epochs", "2")
    resumed = gang(tmp_path, 2, "--epochs", "4")

    assert "resumed from epoch 2" in resumed[0]
    assert result(tmp_path, "gang.json") == result(whole_gang[0], "gang.json")


# --- the notebook ----------------------------------------------------------------------------


def notebook_job(folder: Path) -> list[str]:
    """Fewer epochs than a reader would take, else the notebook as it is."""
    notebook = nbformat.read(EXAMPLES / "digits.ipynb", as_version=4)
    for cell in notebook.cells:
        cell.source = cell.source.replace("epochs=30", "epochs=6")
    nbformat.write(notebook, folder / "digits.ipynb")
    module = "gpucommons.scheduler.training.notebook"
    return [sys.executable, "-m", module, "digits.ipynb", "--function", "train"]


@pytest.fixture(scope="module")
def whole_notebook(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Run from its beginning to its end: its folder, and what came of it."""
    folder = tmp_path_factory.mktemp("notebook")
    return folder, python(*notebook_job(folder)[1:], cwd=folder)


def test_the_notebook_runs_as_a_job_without_its_panel(
    whole_notebook: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    folder, done = whole_notebook

    assert done.returncode == 0, done.stderr
    assert EPOCH.findall(done.stdout) == ["1", "2", "3", "4", "5", "6"]
    assert result(folder)["accuracy"] > 0.9
    assert "TrainPanel(" not in (folder / "results" / "digits.out.ipynb").read_text()


def test_the_notebook_goes_on_where_it_was(
    tmp_path: Path, whole_notebook: tuple[Path, subprocess.CompletedProcess[str]]
) -> None:
    whole, parts = whole_notebook[0], tmp_path / "parts"
    shutil.copytree(whole, parts)
    shutil.rmtree(parts / "results")
    for step in (5, 6):
        shutil.rmtree(parts / "checkpoints" / f"step-{step}")

    done = python(*notebook_job(parts)[1:], cwd=parts)

    assert "resumed from epoch 4" in done.stdout
    assert EPOCH.findall(done.stdout) == ["5", "6"]
    assert result(parts) == result(whole)


def test_the_notebook_is_committed_without_output() -> None:
    notebook = nbformat.read(EXAMPLES / "digits.ipynb", as_version=4)
    nbformat.validate(notebook)

    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    panels = [cell for cell in code if "TrainPanel" in cell.source]
    assert panels
    assert all("no-job" in cell.metadata.tags for cell in panels)


# --- the files -------------------------------------------------------------------------------


def test_the_yaml_is_a_job() -> None:
    _, request, snapshot = read_job(EXAMPLES / "job.yaml", max_bytes=1 << 20)

    assert request.roles[0].command == ["python", "-u", "train_digits.py", "--epochs", "50"]
    assert snapshot is not None


def test_the_demos_teams_are_a_configuration() -> None:
    config = read_config(EXAMPLES.parent / "scheduler" / "up" / "demo.yaml")

    assert {team.name for team in config.teams} == {"vision", "nlp"}
