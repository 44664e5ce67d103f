"""What a YAML file takes along: with a script, a module or a command alike, its own folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Cli

SPACE = """
space: {lr: {low: 0.1, high: 0.2}}
objective: {metric: accuracy}
budget: {trials: 3}
sampler: random
"""


@pytest.fixture
def project(home: Path) -> Path:
    """A folder in the home, with a package and a script below it."""
    folder = home / "project"
    (folder / "mnist").mkdir(parents=True)
    (folder / "mnist" / "__init__.py").write_text("")
    (folder / "mnist" / "main.py").write_text("print('accuracy 0.5')\n")
    return folder


def submitted(cli: Cli, path: Path, content: str) -> tuple[dict[str, object], str]:
    path.write_text(content)
    made = cli("submit", "-f", str(path), "--output", "json")
    assert made.code == 0, made.err
    return made.json["request"], made.err


@pytest.mark.parametrize(
    ("content", "commands"),
    [
        (
            "name: a\nroles: [{command: [bash, -c, cd mnist && python main.py]}]\n",
            [["bash", "-c", "cd mnist && python main.py"]],
        ),
        (
            "name: a\nroles: [{name: head, command: [a]}, {name: rest, command: [b, c]}]\n",
            [["a"], ["b", "c"]],
        ),
        (
            "module: mnist.main\narguments: [--epochs, 3]\n",
            [["python", "-u", "-m", "mnist.main", "--epochs", "3"]],
        ),
        (
            "module: main\nfolder: mnist\nroles: [{milli_gpu: 500}]\n",
            [["python", "-u", "-m", "main"]],
        ),
    ],
    ids=["command", "commands of several roles", "module", "module in another folder"],
)
def test_it_is_the_files_folder_as_of_submit(
    cli: Cli, project: Path, content: str, commands: list[list[str]]
) -> None:
    request, said = submitted(cli, project / "job.yaml", content)
    assert [role["command"] for role in request["roles"]] == commands  # type: ignore[attr-defined]
    assert request["snapshot"]
    folder = "project/mnist" if "folder: mnist" in content else "project"
    assert request["results_to"] == folder
    assert f"takes along: {2 if folder == 'project/mnist' else 3} files of" in said
    assert f"/{folder}, " in said


def test_nothing_goes_along_where_that_is_said_or_files_are_named_by_their_hash(
    cli: Cli, project: Path
) -> None:
    content = "name: a\nfolder: none\nroles: [{command: [nvidia-smi]}]\n"
    request, said = submitted(cli, project / "job.yaml", content)
    assert (request["snapshot"], "takes along" in said) == (None, False)
    manifest = (
        "apiVersion: gpucommons.io/v1alpha1\nkind: TrainingJob\nmetadata: {name: x}\n"
        "spec:\n  roles: [{command: [nvidia-smi]}]\n"
    )
    request, said = submitted(cli, project / "job.yaml", manifest)
    assert (request["snapshot"], "takes along" in said) == (None, False)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("run: mnist/main.py\nmodule: mnist.main\n", "write either run or module, not both"),
        ("run: mnist/main.py\nfolder: mnist\n", "leave it out beside run"),
        ("module: mnist.main\nfolder: none\n", "beside module name the folder"),
        ("module: mnist.other\n", "mnist.other cannot be run"),
        ("module: mnist.main\nroles: [{command: [a]}]\n", "either module or command"),
        ("name: a\nfolder: nowhere\nroles: [{command: [a]}]\n", "nowhere. Name one that is there"),
        ("name: a\nroles: [{command: [./run.sh]}]\n", "There is no program ./run.sh in"),
    ],
)
def test_what_cannot_be_meant_is_refused(cli: Cli, project: Path, content: str, says: str) -> None:
    (project / "job.yaml").write_text(content)
    refused = cli("submit", "-f", str(project / "job.yaml"))
    assert refused.code == 2
    assert says in refused.err


def test_a_folder_too_large_for_a_command_says_how_to_go_without(cli: Cli, project: Path) -> None:
    (project / "data.bin").write_bytes(b"x" * (2 << 20))
    (project / "job.yaml").write_text("name: a\nroles: [{command: [nvidia-smi]}]\n")
    refused = cli("submit", "-f", str(project / "job.yaml"), "--max-mib", "1")
    assert refused.code != 0
    assert "A command that needs no files has folder: none in job.yaml." in refused.err
    assert "The largest: data.bin (2.0 MiB)." in refused.err
    (project / ".gpucommonsignore").write_text("*.bin\n")
    taken = cli("submit", "-f", str(project / "job.yaml"), "--max-mib", "1")
    assert taken.code == 0, taken.err
    assert "left out: data.bin is named in .gpucommonsignore" in taken.err


@pytest.mark.parametrize(
    "runs",
    [
        "roles: [{command: [bash, -c, 'cd mnist && python main.py --lr {lr}']}]",
        "module: mnist.main",
        "run: mnist/main.py",
    ],
)
def test_a_sweep_says_what_it_takes_along(cli: Cli, project: Path, runs: str) -> None:
    (project / "sweep.yaml").write_text(f"name: search\n{runs}\n{SPACE}")
    made = cli("sweep", "submit", str(project / "sweep.yaml"))
    assert made.code == 0, made.err
    assert made.err.startswith("takes along: 3 files of ")


def test_a_schedule_and_the_steps_of_a_pipeline_take_it_along_too(cli: Cli, project: Path) -> None:
    (project / "nightly.yaml").write_text(
        "name: nightly\nschedule: '@daily'\njob: {name: a, roles: [{command: [sh, -c, ls]}]}\n"
    )
    made = cli("schedule", "apply", str(project / "nightly.yaml"))
    assert (made.code, made.err.startswith("takes along: 3 files of ")) == (0, True), made.err
    (project / "nightly.yaml").unlink()
    (project / "steps.yaml").write_text(
        "name: steps\nsteps:\n  one: {module: mnist.main}\n"
        "  two: {roles: [{command: [sh, -c, ls]}], after: one}\n"
    )
    made = cli("pipeline", "run", str(project / "steps.yaml"))
    assert made.code == 0, made.err
    assert made.err.count("takes along: 3 files of ") == 1  # the same folder, said once


def test_what_lies_beside_the_folder_and_is_named_is_warned_of(cli: Cli, project: Path) -> None:
    script = project / "mnist" / "main.py"
    script.write_text("import x\nx.MNIST('../data')\n")
    assert "warning" not in cli("submit", str(script)).err, "there is nothing to leave behind"
    (project / "data").mkdir()
    said = cli("submit", str(script)).err
    assert "warning: main.py (line 2) names ../data, and the folder above" in said
